from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.context.drift import (
    Act,
    act_of,
    drift,
    learned,
    related,
    topic_of,
)
from perdure.actors.context.wording import names_in, units

OVER = 0.8
SALES = "导出2023年5月销售数据\uff0c并按区域生成汇总表"
LATE = "Refund all orders that were delivered late in May 2023, and tell the customers"
DISK = "Free disk space on the build server: delete build artefacts older than 30 days"
OWED = "Which clients owe us money for more than 90 days? List them with the amounts."
KYOTO = "京都支店の6月の売上を集計して、報告書を作成してください"
ESPRESSO = ("web_search", {"query": "best espresso machine"})

Call = tuple[str, dict[str, Any]]


def acts(*calls: Call, times: int = 1) -> list[Act]:
    return [
        act_of(name, json.dumps(arguments, ensure_ascii=False))
        for name, arguments in calls * times
    ]


def score(
    goal: str, calls: list[Act], *, results: dict[int, str] | None = None, **also: Any
) -> float:
    """The score of the last six, with what the results before and among them taught."""
    described = also.pop("described", {})
    topic = topic_of(goal, **also)
    found: set[str] = set()
    for place, act in enumerate(calls):
        result = (results or {}).get(place, "")
        found |= learned(act, result, topic, found, described.get(act.tool, ""))
    return drift(calls[-6:], topic, found, described).score


def shell(*commands: str) -> list[Act]:
    return acts(*[("shell", {"command": one}) for one in commands])


def sql(*texts: str) -> list[Act]:
    return acts(*[("sql", {"text": one}) for one in texts])


LEGIT: dict[str, float] = {
    "zh goal, English tool, the month as a number": score(
        SALES,
        acts(
            *[
                ("query_sales_data", {"month": "2023-05", "region": region})
                for region in ("east", "west", "north", "south", "sea", "hills")
            ]
        ),
    ),
    "zh goal and zh actions": score(
        SALES,
        acts(
            ("查询", {"内容": "五月销售记录"}),
            ("查询", {"内容": "各区域的销售额"}),
            ("汇总", {"按": "区域"}),
            ("查询", {"内容": "退货记录"}),
            ("生成表格", {"标题": "区域汇总"}),
            ("保存", {"名称": "汇总表"}),
        ),
    ),
    "zh goal, the month in other figures": score(
        SALES, acts(("run", {"sql": "WHERE day >= '2023/05/01'"}), times=6)
    ),
    "zh goal, escaped arguments": score(
        SALES, [act_of("note", json.dumps({"t": "销售数据"}))] * 6
    ),
    "zh goal, a tool described in Chinese": score(
        SALES,
        acts(("fetch_rows", {"offset": 100}), times=6),
        described={"fetch_rows": "查询销售数据"},
    ),
    "ja goal and ja actions": score(
        KYOTO,
        acts(
            ("search_db", {"条件": "京都支店"}),
            ("search_db", {"条件": "6月の売上"}),
            ("集計", {"対象": "売上"}),
            ("集計", {"対象": "返品"}),
            ("write", {"本文": "報告書の下書き"}),
            ("write", {"本文": "報告書"}),
        ),
    ),
    "ja goal, tables found by name": score(
        KYOTO,
        [
            *acts(("list_tables", {"支店": "京都"})),
            *sql(*["SELECT * FROM uriage_kyoto LIMIT 10"] * 6),
        ],
        results={0: '["uriage_kyoto", "kokyaku"]'},
    ),
    "ids that a result gave": score(
        LATE,
        [
            *acts(("list_orders", {"month": "2023-05"})),
            *acts(*[("fetch", {"id": f"A-{n}"}) for n in range(1001, 1007)]),
        ],
        results={0: json.dumps([f"A-{n}" for n in range(1001, 1007)])},
    ),
    "paging by cursors, each from the page before": score(
        LATE,
        [
            *acts(("list_orders", {"status": "late"})),
            *acts(*[("next", {"cursor": f"c{n}x9"}) for n in range(6)]),
        ],
        results={n: f'{{"cursor": "c{n}x9"}}' for n in range(7)},
    ),
    "paging by numbers": score(
        LATE, acts(*[("list_orders", {"page": n}) for n in range(6)])
    ),
    "mails to customers of the result": score(
        LATE,
        [
            *acts(("list_orders", {"late": True})),
            *acts(*[("mail", {"to": f"c{n}@example.org"}) for n in range(6)]),
        ],
        results={0: json.dumps([f"c{n}@example.org" for n in range(6)])},
    ),
    "shell commands, few words of the goal": score(
        DISK,
        shell(
            "df -h",
            "du -sh /var/build/*",
            "find /var/build -mtime +30 -name '*.o'",
            "ls -la /var/build/old",
            "rm -rf /var/build/old",
            "df -h",
        ),
    ),
    "shell commands on what ls showed": score(
        DISK,
        [
            *shell("ls /srv/build"),
            *shell(*[f"rm -rf job_{n}" for n in range(6)]),
        ],
        results={0: "\n".join(f"job_{n}" for n in range(6))},
    ),
    "SQL on tables that a result named": score(
        OWED,
        [
            *acts(("list_tables", {"about": "money that clients owe"})),
            *sql(
                "SELECT * FROM debtors LIMIT 5",
                "SELECT name, amount FROM debtors WHERE overdue > 90",
                "SELECT count(*) FROM invoices",
                "SELECT * FROM invoices JOIN debtors USING (debtor)",
                "SELECT sum(amount) FROM invoices",
                "SELECT * FROM debtors ORDER BY amount",
            ),
        ],
        results={0: '["debtors", "invoices", "payments"]'},
    ),
    "constraints and inputs are of the topic": score(
        "Do the weekly job",
        acts(("load", {"source": "warehouse-7"}), ("load", {"source": "x"}), times=3),
        inputs={"source": "warehouse-7"},
    ),
    "a later step of the plan": score(
        "Prepare the board meeting",
        acts(("render_chart", {"kind": "revenue"}), times=6),
        plan=["collect the revenue", "draw a chart of the revenue"],
    ),
    "other forms of the words": score(
        "Summarise the customers' complaints about deliveries",
        acts(("search", {"query": "complaint delivery customer"}), times=6),
    ),
    "code that names what the goal names": score(
        "Fix the timeout of the HTTP client in the billing service",
        shell(
            "grep -rn timeout src/",
            "sed -n 1,80p src/client.py",
            "python -m pytest tests/test_client.py",
            "git diff",
            "sed -i s/5/30/ src/client.py",
            "git commit -am 'Raise the timeout of the client'",
        ),
    ),
    "a detour of two actions": score(
        LATE,
        [*acts(ESPRESSO, times=2), *acts(("list_orders", {"late": True}), times=4)],
    ),
    "de goal and actions": score(
        "Erstelle einen Bericht über die Umsätze der Filialen im Mai",
        acts(
            ("suche", {"text": "Umsätze Filialen"}),
            ("suche", {"text": "Filiale Nord"}),
            ("schreibe", {"titel": "Bericht"}),
            times=2,
        ),
    ),
    "flights, of one named tool": score(
        "Book a flight to Tokyo for the team offsite",
        acts(
            *[
                ("search_flight_offers", {"from": "SFO", "to": "NRT", "day": day})
                for day in ("2024-03-01", "2024-03-02", "2024-03-03")
            ],
            times=2,
        ),
    ),
    "a new program": score(
        "Build me a todo web app",
        acts(
            ("write_file", {"path": "package.json", "content": '{"name":"todo-app"}'}),
            ("write_file", {"path": "src/App.tsx", "content": "const [todos] = x"}),
            ("shell", {"command": "npm install"}),
            ("shell", {"command": "npm run build"}),
            ("read_file", {"path": "src/main.tsx"}),
            ("shell", {"command": "npx tsc --noEmit"}),
        ),
    ),
    "a fault to be found": score(
        "Find out why the nightly import fails",
        shell(
            "journalctl -u importer --since yesterday",
            "tail -n 200 /var/log/importer/error.log",
            "cat /opt/importer/main.py",
            "python -c 'import psycopg2'",
            "pg_isready -h db1",
            "cat /etc/importer.toml",
        ),
    ),
    "files that a search named": score(
        "The login page is slow. Make it faster.",
        [
            *shell("rg -ln login app/", "rg -n 'def authenticate' app/"),
            *acts(
                ("read_file", {"path": "app/auth/views.py"}),
                ("read_file", {"path": "app/auth/backends.py"}),
                ("shell", {"command": "python -m cProfile manage.py test auth"}),
                ("edit", {"path": "app/auth/backends.py", "new": "cached"}),
            ),
        ],
        results={
            0: "app/auth/views.py\napp/auth/urls.py",
            2: "from app.auth.backends import Backend",
        },
    ),
    "a survey, name by name": score(
        "Write an overview of solid-state battery makers and their funding",
        acts(
            *[
                ("web_search", {"query": query})
                for query in (
                    "QuantumScape series funding 2023",
                    "Solid Power SPAC valuation",
                    "Toyota solid state battery timeline",
                    "ProLogium Dunkirk plant investment",
                    "Factorial Energy Mercedes investment",
                    "Blue Solutions electrolyte",
                )
            ]
        ),
    ),
    "zh goal, code in English on a file that was found": score(
        SALES,
        acts(
            ("list_files", {"dir": "/data/销售"}),
            ("python", {"code": "df = pd.read_csv('/data/sales_202305.csv')"}),
            ("python", {"code": "df.groupby('region').amount.sum()"}),
            ("python", {"code": "df.columns"}),
            ("python", {"code": "out.to_excel('summary.xlsx')"}),
            ("python", {"code": "df.head()"}),
        ),
        results={0: '["sales_202305.csv"]', 1: "region\namount\nday"},
    ),
    "ko goal and actions": score(
        "2023년 5월 판매 데이터를 지역별로 요약해 주세요",
        acts(("query", {"월": "2023-05"}), ("요약", {"대상": "판매 데이터"}), times=3),
    ),
}
DRIFTING: dict[str, float] = {
    "zh goal, English coffee": score(SALES, acts(ESPRESSO, times=6)),
    "zh goal, zh coffee": score(SALES, acts(("搜索", {"词": "最好的咖啡机"}), times=6)),
    "zh goal, weather": score(
        SALES,
        acts(("查天气", {"城市": "上海"}), ("查天气", {"城市": "北京"}), times=3),
    ),
    "ja goal, travel": score(
        KYOTO,
        acts(("検索", {"語": "東京駅から温泉への行き方を調べてください"}), times=6),
    ),
    "en goal, coffee": score(LATE, acts(ESPRESSO, times=6)),
    "en goal, five of six": score(
        LATE, [*acts(("list_orders", {"late": True})), *acts(ESPRESSO, times=5)]
    ),
    "pulled away by the prose of a result": score(
        LATE,
        [
            *acts(("list_orders", {"late": True})),
            *acts(("web_search", {"query": "repair coffee machine leak"}), times=6),
        ],
        results={0: '{"note": "the coffee machine has a leak, repair it first"}'},
    ),
    "results of what is off topic make nothing right": score(
        LATE,
        acts(ESPRESSO, ("open_page", {"url": "https://cafe.example/m/4711"}), times=6),
        results={0: '["https://cafe.example/m/4711", "espresso"]'},
    ),
    "shell, another job": score(
        DISK,
        shell(
            "pip install torch",
            "git clone https://example.org/game",
            "make test",
            "vim main.c",
            "gcc -O2 main.c",
            "./a.out",
        ),
    ),
    "SQL, another table": score(
        OWED, sql(*["SELECT title FROM movies WHERE stars > 4 ORDER BY title"] * 6)
    ),
}


@pytest.mark.parametrize("name", LEGIT)
def test_actions_that_serve_the_goal_raise_no_alarm(name: str) -> None:
    # K55 A21
    assert LEGIT[name] <= OVER


@pytest.mark.parametrize("name", DRIFTING)
def test_actions_that_serve_something_else_do(name: str) -> None:
    # K55 A21 B15
    assert DRIFTING[name] > OVER


@pytest.mark.parametrize(
    ("goal", "calls"),
    [
        # A tool of the goal's own name, used for something else.
        (
            "Answer questions on our sales contracts",
            acts(("search_contracts", {"query": "cheap flights"}), times=6),
        ),
        # Another question on the same things.
        (
            "Refund late orders",
            acts(("list_orders", {"sort": "most beautiful order"}), times=6),
        ),
    ],
)
def test_what_shares_the_words_of_the_goal_is_not_seen_as_drift(
    goal: str, calls: list[Act]
) -> None:
    # The limit that the module states; a change that moves it is to be stated too.
    assert score(goal, calls) <= OVER


def test_what_shares_nothing_that_can_be_compared_looks_adrift() -> None:
    # The other limit: another language, and neither number, name nor found value.
    calls = acts(("python", {"code": "frame.groupby(region).amount.sum()"}), times=6)
    assert score(SALES, calls) > OVER


@pytest.mark.parametrize("goal", ["do it", "ok", "?", "…"])
def test_a_goal_that_names_nothing_is_not_compared(goal: str) -> None:
    assert score(goal, acts(ESPRESSO, times=6)) == 0.0


def test_the_reason_names_what_the_actions_were_about_and_what_they_lack() -> None:
    why = drift(acts(ESPRESSO, times=6), topic_of(LATE)).why
    assert why == (
        "the last 6 actions were about best, espresso, machine, web_search; of the "
        "goal they lack May 2023, Refund, orders, delivered, late, tell, customers"
    )


@pytest.mark.parametrize(
    "text",
    [
        "2023年5月",
        "2023-05",
        "2023/5/01",
        "2023. 5",
        "20230517",
        "May 2023",
        "17 may 2023",
        "2023 May",
        "2023年05月17日",
        "2023년 5월",
        "２０２３年５月",
    ],
)
def test_a_month_is_the_same_however_it_is_written(text: str) -> None:
    assert {"2023-05", "2023", "month 05"} <= units(text).keys()


def test_an_id_a_path_and_a_number_are_values_and_prose_is_not() -> None:
    text = (
        'table T-42 of "sales_db" in /srv/x.csv has 1234 rows; see the coffee machine'
    )
    values = {"t-42", "sales_db", "srv/x.csv", "x.csv", "1234"}
    assert names_in(text) == values | units("sales db").keys()


def test_only_a_result_of_what_is_on_topic_belongs_to_the_topic() -> None:
    topic = topic_of(LATE)
    on, off = acts(("list_orders", {}), ESPRESSO)
    assert "a-1001" in learned(on, "A-1001", topic, set())
    assert learned(off, "A-1001", topic, set()) == set()


@given(st.text(max_size=80), st.text(max_size=120), st.text(max_size=80))
def test_whatever_is_compared_the_score_is_a_share(
    goal: str, arguments: str, result: str
) -> None:
    topic, act = topic_of(goal), act_of("f", arguments)
    found = learned(act, result, topic, set())
    assert 0.0 <= drift([act] * 6, topic, found).score <= 1.0
    assert 0.0 <= related(act, topic, found, goal) <= 1.0


@given(st.text(min_size=1, max_size=60))
def test_an_action_in_the_words_of_the_goal_never_drifts(goal: str) -> None:
    call = acts(("f", {"text": goal}))
    assert drift(call * 6, topic_of(goal)).score <= 0.0


def test_what_is_looked_at_of_an_action_is_bounded() -> None:
    act = act_of("f" * 100, "x" * 100_000)
    assert len(act.tool) + len(act.arguments) < 1_000
