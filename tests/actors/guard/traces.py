"""Labelled traces of calls: circles, and repetition that is meant.

A call is a tool, its arguments, and what came of it; `Bad` is an error, `Busy` a
service's trouble. A trace says whether a detector should speak, and within which call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.actors.guard.detect import Finding, LoopRules, detect
from perdure.actors.guard.seen import INFRA, WROTE, Outcome, Seen, seen_of

__all__ = ["TRACES", "Bad", "Busy", "Call", "Trace", "first_finding", "seen"]

WRITERS = frozenset(
    {
        "append",
        "commit",
        "create_ticket",
        "delete",
        "edit",
        "insert",
        "mark_read",
        "mkdir",
        "move",
        "put",
        "send_mail",
        "set_value",
        "upload",
        "write",
    }
)
POLLS = {"wait_job": 60.0, "wait_build": 600.0}
STEP = 5.0  # seconds between two calls


class Bad(str):
    """An error."""

    __slots__ = ()


class Busy(str):
    """A service's trouble: overload, a lost connection."""

    __slots__ = ()


class Call(NamedTuple):
    tool: str
    args: dict[str, Any]
    result: str


class Trace(NamedTuple):
    name: str
    loop: bool
    calls: Sequence[Call]


def c(tool: str, result: str = "ok", **args: Any) -> Call:
    return Call(tool, args, result)


def seen(calls: Iterable[Call]) -> Iterator[Seen]:
    """The calls as the guard remembers them."""
    for place, (tool, args, result) in enumerate(calls, 1):
        failed = isinstance(result, Bad | Busy)
        status: Outcome = "failed" if failed else "completed"
        flags = WROTE if tool in WRITERS and not failed else 0
        one = seen_of(
            tool=tool,
            arguments=json.dumps(args, ensure_ascii=False),
            status=status,
            text=str(result),
            flags=flags | (INFRA if isinstance(result, Busy) else 0),
            patience=POLLS.get(tool, 0.0),
            at=1_700_000_000.0 + place * STEP,
        )
        yield msgspec.structs.replace(one, op=place, tool=tool, status=status)


def first_finding(
    calls: Iterable[Call], rules: LoopRules | None = None
) -> tuple[int, Finding] | None:
    """The number of the call that the detector first spoke at, and what it said."""
    recent: list[Seen] = []
    for place, one in enumerate(seen(calls), 1):
        recent.append(one)
        if found := detect(recent, rules or LoopRules()):
            return place, found
    return None


def _circles() -> Iterator[tuple[str, list[Call]]]:
    rows = '{"rows": 120, "region": "East", "total": 48200}'
    missing = Bad("FileNotFoundError: no such file: config/app.toml")
    yield (
        "read the same file again and again",
        [c("read_file", "port = 8080\nhost = 0.0.0.0\nlog = info", path="app.toml")]
        * 5,
    )
    yield (
        "query with keys in another order",
        [
            Call("query", args, rows)
            for args in (
                {"month": "2023-05", "region": "East"},
                {"region": "East", "month": "2023-05"},
            )
        ]
        * 3,
    )
    yield (
        "the same search, with the thought reworded",
        [
            c("search", "1. Budget 2023 2. Budget 2022 3. Plan", q="budget", thought=t)
            for t in ("let me look", "maybe look once more", "I should check", "hmm")
        ],
    )
    yield (
        "ask the same with a new request id",
        [
            c("get_order", '{"id": 7, "state": "open"}', id=7, request_id=f"r-{n}")
            for n in range(4)
        ],
    )
    yield (
        "the same result but for its time",
        [
            c(
                "status",
                f'{{"state": "stuck", "at": "2023-05-0{n}T10:00:0{n}Z"}}',
                job=9,
            )
            for n in range(1, 5)
        ],
    )
    yield (
        "the same result but for its duration",
        [
            c("lint", f"3 problems found in {n}.{n}2s: E501, F401, W291", path="src")
            for n in range(1, 5)
        ],
    )
    yield (
        "the same result but for a trace id",
        [
            c("describe", f"table sales, 4 columns, trace {u}", table="sales")
            for u in (
                "4f1c9be2-8a54-4f6e-9d5b-0c1e7fb0a111",
                "9a7d2c1e-11d4-4f33-8c0a-5e6f7a8b9c0d",
                "0b1c2d3e-4f5a-4b6c-8d7e-8f9a0b1c2d3e",
            )
        ],
    )
    yield (
        "look and look away",
        [
            c("list_dir", "a.txt b.txt c.txt and 14 more files", path="."),
            c("read_file", "the same old text of a file here", path="a.txt"),
        ]
        * 4,
    )
    yield (
        "build and an edit that mends nothing",
        [
            c("build", Bad("CompileError: E1 at line 3")),
            c("edit", "ok", file="f.py", line=1),
        ]
        * 3,
    )
    yield (
        "plan A, plan B, plan A, plan B",
        [
            c("propose", "plan A needs approval of a lead", plan="A"),
            c("propose", "plan B is over the budget of 900", plan="B"),
        ]
        * 4,
    )
    yield (
        "three tools in a ring",
        [
            c("open_page", "Orders (0 new) | Settings | Help", page="orders"),
            c("open_page", "Settings: language, time zone, theme", page="settings"),
            c("open_page", "Help: how to place an order, contact", page="help"),
        ]
        * 3,
    )
    yield (
        "four tools in a ring",
        [
            c("fetch", "401, log in first please now", url="/a"),
            c("login", "logged in as reporter, session set", user="reporter"),
            c("fetch", "302 moved to /login?next=/a now", url="/home"),
            c("logout", "logged out of the session now", user="reporter"),
        ]
        * 3,
    )
    yield (
        "five tools in a ring",
        [c(f"tool_{n}", f"nothing new in place {n} of the ring", n=n) for n in range(5)]
        * 3,
    )
    yield "a missing file, as if it came", [c("read_file", missing, path="x")] * 4
    yield (
        "date formats, one after another",
        [
            c("parse_date", Bad("ValueError: cannot parse the date"), text=text)
            for text in ("2023-05-01", "2023/05/01", "2023.05.01", "2023_05_01")
        ],
    )
    yield (
        "日期格式来回转换",
        [
            c("转换日期", Bad("ValueError: 无法识别的日期格式"), text=text)
            for text in (
                "2023年5月1日",
                "2023年05月01日",
                "2023年5月01日",
                "2023年05月1日",
            )
        ],
    )
    yield (
        "重复查询同一张表",
        [c("查询数据", "共120行,区域:华东,合计48200元", 表="sales", 月份="2023-05")]
        * 4,
    )
    yield (
        "两个方案反复横跳",
        [
            c("评估方案", "方案A:成本过高,不可行,需重新评估", 方案="A"),
            c("评估方案", "方案B:工期过长,不可行,需重新评估", 方案="B"),
        ]
        * 4,
    )
    yield (
        "换个说法再搜一遍",
        [
            c("搜索", "1. 部署指南 2. 回滚说明 3. 发布流程", 关键词="部署", thought=t)
            for t in ("再查一下", "也许漏了什么", "换个思路", "确认一遍")
        ],
    )
    yield (
        "limits moved a little, the same page",
        [
            c("list_orders", "orders 1 to 50 of 50, nothing was left out", limit=n)
            for n in (50, 51, 52, 60)
        ],
    )
    yield (
        "the same words in another order",
        [
            c("search", "no results", q=q)
            for q in ("espresso best machine", "best machine espresso") * 2
        ],
    )
    yield (
        "case and spaces of one query",
        [
            c("search", "[]", q=q)
            for q in ("New York", "new york", " new  york", "NEW YORK")
        ],
    )
    yield (
        "SQL with the same mistake",
        [
            c(
                "sql",
                Bad("SyntaxError: near FROM"),
                query=f"SELECT a FROM t WHERE n={n}",
            )
            for n in (1, 2, 3, 4)
        ],
    )
    yield (
        "one mistake, four tools",
        [
            c(t, Bad("PermissionError: not allowed"), path="/etc/shadow")
            for t in ("read_file", "cat", "open", "view")
        ],
    )
    yield (
        "errors of four kinds in a row",
        [
            c("fetch", Bad("HTTPError: 404 not found"), url="/v1/sales"),
            c("fetch", Bad("HTTPError: 404 not found"), url="/v2/sales?month=5"),
            c(
                "sql",
                Bad("OperationalError: no such table"),
                query="SELECT 1 FROM sales",
            ),
            c("read_file", Bad("FileNotFoundError: sales.csv"), path="sales.csv"),
        ],
    )
    yield (
        "refused at the door again and again",
        [c("delete", Bad("this call failed 2 times in this step"), path="data/x")] * 3,
    )
    yield (
        "a tool that is not there",
        [
            c(
                "send_fax",
                Bad("there is no tool 'send_fax'; tools: send_mail"),
                to="office",
            )
        ]
        * 3,
    )
    yield (
        "arguments that do not validate",
        [
            c("query", Bad("arguments of query: missing field `month`"), region=r)
            for r in ("East", "West", "East", "West")
        ],
    )
    yield (
        "after real work it gets stuck",
        [
            c("read_file", "import os\nprint(os.name)", path="a.py"),
            c("edit", "ok", file="a.py", line=2),
            c("run_tests", "2 failed, 10 passed: test_a test_b", path="tests"),
            c("edit", "ok", file="a.py", line=3),
            *[c("run_tests", "1 failed, 11 passed: test_b", path="tests")] * 3,
        ],
    )
    yield "a poll that never changes", [c("wait_job", "running", job=9)] * 14
    yield (
        "the same mail is written again",
        [c("draft", "draft 3 is ready to be sent to the office", to="office")] * 3,
    )
    yield (
        "scroll up, scroll down",
        [
            c("scroll", "top of the page: Title, Abstract, Intro", to="top"),
            c("scroll", "end of the page: References, Appendix", to="end"),
        ]
        * 3,
    )
    yield (
        "ask itself",
        [c("think", "noted, think about it and go on with work", about="the goal")] * 4,
    )
    yield (
        "数字格式反复尝试",
        [
            c("解析金额", Bad("ValueError: 金额格式不正确"), 金额=text)
            for text in ("1,000.00", "2,000.00", "3,000.00", "4,000.00")
        ],
    )


def _meant() -> Iterator[tuple[str, list[Call]]]:
    yield (
        "a job that gets on",
        [c("status", f"running {n}0%", job=9) for n in range(1, 8)],
    )
    yield "a poll within its patience", [c("wait_job", "running", job=9)] * 11
    yield "a long build that is waited for", [c("wait_build", "queued", id=4)] * 40
    yield (
        "page by page",
        [
            c("list_orders", f"orders {n}1 to {n + 1}0: {n}a, {n}b", page=n)
            for n in range(12)
        ],
    )
    yield (
        "cursor by cursor",
        [c("next_page", f"cursor {n}: rows of {n}", cursor=f"c{n}") for n in range(9)],
    )
    yield (
        "one edit a file",
        [c("edit", "ok", file=f"src/part_{n}.py", line=1) for n in range(9)],
    )
    yield (
        "every file is read",
        [
            c("read_file", f"module number {n}: def f{n}(): ...", path=f"p{n}.py")
            for n in range(9)
        ],
    )
    yield (
        "overload, with backoff",
        [
            *[c("fetch", Busy("ServiceTrouble: 429"), url="/a")] * 5,
            c("fetch", "a page of text that was worth the wait", url="/a"),
        ],
    )
    yield (
        "a connection that comes and goes",
        [
            c("fetch", Busy("ConnectionResetError: reset"), url=f"/{n}")
            for n in range(6)
        ],
    )
    yield (
        "two tries, then it works",
        [
            c("fetch", Bad("TimeoutError: 30 s"), url="/a"),
            c("fetch", Bad("TimeoutError: 30 s"), url="/a"),
            c("fetch", "the page, at last, with all its text", url="/a"),
        ],
    )
    yield (
        "test, mend, test",
        [
            call
            for n in range(5, 0, -1)
            for call in (
                c("run_tests", f"{n} failed", path="tests"),
                c("edit", "ok", file="a.py", line=n),
            )
        ],
    )
    yield (
        "build until it passes",
        [
            c("build", Bad("CompileError: E1")),
            c("edit", "ok", file="f.py", line=1),
            c("build", Bad("CompileError: E2")),
            c("edit", "ok", file="f.py", line=2),
            c("build", "built in 3.2s"),
        ],
    )
    yield (
        "the same error, three different mends",
        [
            call
            for n in range(3)
            for call in (
                c("build", Bad("CompileError: E1 at line 3")),
                c("edit", "ok", file="f.py", line=n),
            )
        ],
    )
    yield "look twice", [c("read_file", "host = a", path="x")] * 2
    yield (
        "look, work, look, work",
        [
            call
            for n in range(4)
            for call in (
                c("list_dir", " ".join(f"f{k}" for k in range(n + 1)), path="out"),
                c("write", "ok", path=f"out/f{n}"),
            )
        ],
    )
    yield (
        "four searches, nothing there",
        [
            c("search", "[]", q=q)
            for q in ("invoice", "receipt", "bill of sale", "quote")
        ],
    )
    yield (
        "grep for six names",
        [
            c("grep", "", pattern=p)
            for p in ("load_config", "Settings", "DATABASE", "env", "dotenv", "secrets")
        ],
    )
    yield (
        "a row a customer",
        [c("insert", "ok", table="t", id=n, name=f"customer {n}") for n in range(10)],
    )
    yield (
        "mail to each of them",
        [c("send_mail", "sent", to=f"office{n}@example.org") for n in range(6)],
    )
    yield (
        "region by region",
        [
            c("query", f"{n}20 rows for {r}", region=r)
            for n, r in enumerate(("East", "West", "North", "South"), 1)
        ],
    )
    yield (
        "month by month",
        [c("query", f"total {m * 317}", month=f"2023-{m:02d}") for m in range(1, 13)],
    )
    yield (
        "逐月统计",
        [
            c("查询销售", f"{m}月合计{m * 317}元", 月份=f"2023年{m}月")
            for m in range(1, 8)
        ],
    )
    yield (
        "逐个文件修改",
        [c("edit", "ok", file=f"章节{n}.md", text="修订") for n in range(1, 8)],
    )
    yield (
        "轮询导出任务,进度在变",
        [c("查询进度", f"已完成{n * 20}%", 任务="导出") for n in range(6)],
    )
    yield (
        "找了几个地方,后来找到了",
        [
            c("read_file", Bad("FileNotFoundError: config.toml"), path="config.toml"),
            c("read_file", Bad("FileNotFoundError: app.toml"), path="conf/app.toml"),
            c("list_dir", "etc/ src/ README.md pyproject.toml", path="."),
            c("read_file", "port = 80", path="etc/app.toml"),
        ],
    )
    yield (
        "the same place between other work",
        [
            call
            for n in range(5)
            for call in (
                c("read_file", "todo: a, b, c, d, e and nothing else", path="todo.txt"),
                c("write", "ok", path=f"part{n}.md", text=f"part {n}"),
            )
        ],
    )
    yield (
        "approve, wait, go on",
        [
            c("ask", "yes", question="delete x?"),
            c("delete", "ok", path="x"),
            c("ask", "yes", question="delete y?"),
            c("delete", "ok", path="y"),
        ],
    )
    yield (
        "halving an interval",
        [
            c("try_size", "too big" if n % 2 else "too small", size=s)
            for n, s in enumerate((512, 256, 384, 320, 352, 336, 344))
        ],
    )
    yield (
        "translations, one by one",
        [
            c("translate", f"text in {lang}", lang=lang, text="hello")
            for lang in ("de", "fr", "ja", "zh", "es", "it")
        ],
    )
    yield (
        "checks before each of four releases",
        [
            call
            for n in range(4)
            for call in (
                c("run_tests", "all passed", path="tests"),
                c("commit", f"commit {n}", message=f"part {n}"),
            )
        ],
    )
    yield (
        "three errors of three kinds, then it gets on",
        [
            c("sql", Bad("SyntaxError: near FORM"), query="SELECT a FORM t"),
            c(
                "sql",
                Bad("OperationalError: no such column b"),
                query="SELECT b FROM t",
            ),
            c("sql", Bad("OperationalError: no such table u"), query="SELECT a FROM u"),
            c("sql", "42 rows", query="SELECT a FROM t"),
        ],
    )
    yield (
        "one counter, raised step by step",
        [c("set_value", f"was {n}", name="n", value=n + 1) for n in range(6)],
    )
    yield (
        "a new token each hour",
        [
            call
            for n in range(3)
            for call in (
                c("login", f"token number {n} is good until {n}:00", user="reporter"),
                c("fetch", f"part {n} of the list of orders", url=f"/orders?part={n}"),
                c("write", "ok", path=f"orders_{n}.json"),
            )
        ],
    )
    yield (
        "upload in pieces",
        [c("upload", "ok", name="dump.bin", offset=n * 1024) for n in range(8)],
    )


TRACES: tuple[Trace, ...] = (
    *(Trace(name, True, calls) for name, calls in _circles()),
    *(Trace(name, False, calls) for name, calls in _meant()),
)
