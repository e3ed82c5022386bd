"""How each step of the report job is judged: against the database and the files.

Nothing that the model says is taken for true here; what it says is compared.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ..actors.acceptance import Accept, View
from .data import COLUMNS, TABLE, open_database
from .job import region_name, table_row
from .mail import attachments, kept
from .query import Query, run
from .workplace import CSV_REPORT, MARKDOWN_REPORT, REPORTS, Workplace

__all__ = ["make_acceptance"]


def make_acceptance(place: Workplace) -> dict[str, Accept]:
    """The acceptance functions by step id, and ``job`` for the task as a whole.

    Each gets the step's result, parsed where it is JSON, and returns True or says what
    is wrong. One that raises, on a result of another shape say, is no pass.
    """

    def ask(columns: list[str], **where: Any) -> list[list[Any]]:
        groups = [column for column in columns if "(" not in column]
        with closing(open_database(place.database)) as database:
            return run(
                database,
                Query(table=TABLE, columns=columns, where=where, group_by=groups),
            )

    def count(**where: Any) -> int:
        ((number,),) = ask(["count(*)"], **where)
        return int(number)

    def survey(result: Any, _view: View) -> bool | str:
        """The table, its columns and its number of rows are those of the database."""
        return _all_equal(
            {
                "table": (result["table"], TABLE),
                "columns": (result["columns"], list(COLUMNS)),
                "rows": (result["rows"], count()),
            }
        )

    def collect(result: Any, view: View) -> bool | str:
        """The country has airports, as many as the database says."""
        country = view.inputs["country"]
        found = count(country=country)
        if not found:
            return f"the database has no airports of {country!r}"
        return _all_equal(
            {
                "country": (result["country"], country),
                "airports": (result["airports"], found),
            }
        )

    def check(result: Any, view: View) -> bool | str:
        """The figures agree with the database; the coordinates are on Earth."""
        country = view.inputs["country"]
        wrong = _all_equal(
            {
                "airports": (result["airports"], view.facts["collect"]["airports"]),
                "without_region": (
                    result["without_region"],
                    count(country=country, region=""),
                ),
                "without_iata": (
                    result["without_iata"],
                    count(country=country, iata=""),
                ),
            }
        )
        if wrong is not True:
            return wrong
        south, north = result["latitude"]
        west, east = result["longitude"]
        if not (-90 <= south <= north <= 90 and -180 <= west <= east <= 180):
            return "an airport lies outside the Earth's coordinates"
        return True

    def group(result: Any, view: View) -> bool | str:
        """Every region is there with its number, and the numbers sum up."""
        wanted = dict(ask(["region", "count(*)"], country=view.inputs["country"]))
        stated = {region: number for region, number, _ in result["regions"]}
        if missing := sorted(wanted.keys() - stated.keys()):
            return f"regions are missing: {', '.join(missing)}"
        return _all_equal(
            {
                "regions": (stated, wanted),
                "airports": (result["airports"], sum(stated.values())),
                "sum": (sum(stated.values()), view.facts["collect"]["airports"]),
            }
        )

    def export(result: Any, view: View) -> bool | str:
        """report.csv holds each airport of the country once, region by region."""
        wrong = _describes(place, CSV_REPORT, result)
        if wrong is not True:
            return wrong
        with place.report(CSV_REPORT).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        regions = {region: number for region, number, _ in _regions(view)}
        return _all_equal(
            {
                "rows stated": (result["rows"], len(rows)),
                "rows": (len(rows), view.facts["collect"]["airports"]),
                "codes": (len({row["icao"] for row in rows}), len(rows)),
                "rows by region": (Counter(row["region"] for row in rows), regions),
            }
        )

    def summarize(result: Any, view: View) -> bool | str:
        """report.md names the country, has every region's row, and the total."""
        wrong = _describes(place, MARKDOWN_REPORT, result)
        if wrong is not True:
            return wrong
        lines = place.report(MARKDOWN_REPORT).read_text("utf-8").splitlines()
        if view.inputs["country"] not in lines[0]:
            return "the title does not name the country"
        for region, number, highest in _regions(view):
            if table_row(region, number, highest) not in lines:
                return f"the table has no right row for {region_name(region)}"
        if table_row("total", view.facts["collect"]["airports"], None) not in lines:
            return "the table has no right total"
        return True

    def send(result: Any, view: View) -> bool | str:
        """The operator's mail was kept by the server and carries both files."""
        if result["to"] != view.inputs["operator"]:
            return f"the mail went to {result['to']!r}"
        digests = {name: _digest(place, name) for name in REPORTS}
        stated = {part["file"]: part["sha256"] for part in result["attachments"]}
        if stated != digests:
            return "the mail does not carry the two reports as they are"
        for message in kept(place.mail_store):
            carried = {
                name: hashlib.sha256(data).hexdigest()
                for name, data in attachments(message).items()
            }
            if message["To"] == result["to"] and carried == digests:
                text = message.get_body(("plain",))
                named = text is not None and CSV_REPORT in text.get_content()
                return named or f"the mail does not name {CSV_REPORT}"
        return "the mail server kept no such mail"

    def job(_result: Any, view: View) -> bool | str:
        """The files are still those that the steps wrote and the mail carried."""
        for step, name in (("export", CSV_REPORT), ("summarize", MARKDOWN_REPORT)):
            if view.facts[step]["sha256"] != _digest(place, name):
                return f"{name} is not what step {step} wrote"
        return True

    return {
        accept.__name__: accept
        for accept in (survey, collect, check, group, export, summarize, send, job)
    }


def _all_equal(pairs: Mapping[str, tuple[Any, Any]]) -> bool | str:
    for name, (stated, wanted) in pairs.items():
        if stated != wanted:
            return f"{name}: the result says {stated!r}, right is {wanted!r}"
    return True


def _regions(view: View) -> list[tuple[str, int, float]]:
    return [tuple(row) for row in view.facts["group"]["regions"]]


def _digest(place: Workplace, name: str) -> str:
    return hashlib.sha256(place.report(name).read_bytes()).hexdigest()


def _describes(place: Workplace, name: str, result: Any) -> bool | str:
    path = place.report(name)
    if not path.exists():
        return f"{name} was not written"
    return _all_equal(
        {
            "file": (result["file"], name),
            "sha256": (result["sha256"], _digest(place, name)),
        }
    )
