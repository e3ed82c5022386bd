"""Words that say nothing of a topic: of sentences, calls, SQL and shells."""

from __future__ import annotations

__all__ = ["EMPTY", "SQL"]

_EMPTY = """
a about after all also an and any are as at be been before but by can do does each
every for from had has have how i if in into is it its just me more most my no not
now of off on one only or our out over per please so some such than that the their
them then there these they this those to too up us use using was we were what when
where which who will with within without would you your
aber alle als am an auf aus bei bis das dass dem den der des die ein eine einem
einen einer es für im in ist mit nach nicht oder sie sind und von vor was wie wird
zu zum zur
au aux avec ce ces cette dans de des du elle en est et il la le les leur ne ou par
pas pour que qui sa se ses son sur un une
con como del el ella en es esta este la las lo los más no para pero por que se sin
su sus un una y
add args body call check cmd command content cursor data do exec execute fetch field
file filename files filter find format get id ids input item items json key kind
limit list load lookup make max min name names new null number offset open output
page param params path paths print put query read result results run save search
set show size sort start stop text tool true false type update url value values
end join select view web where write
bash cat cd cp curl df du echo grep head home http https ls mkdir mv opt org py
python rm sed sh sudo tail tmp usr var www com
"""
_SQL = """
ALL AND AS ASC BEGIN BETWEEN BY CASE COUNT CREATE CROSS DELETE DESC DISTINCT DROP
ELSE END EXISTS FROM GROUP HAVING IN INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT
MAX MIN NOT NULL OFFSET ON OR ORDER OUTER PRIMARY RIGHT SELECT SET SUM TABLE THEN
UNION UPDATE VALUES WHEN WHERE WITH
"""
EMPTY = frozenset(_EMPTY.split())
SQL = frozenset(_SQL.split())  # where they stand in capitals; an order is no ORDER BY
