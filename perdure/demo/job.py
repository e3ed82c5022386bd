"""What the report job consists of, for the scripted model: calls and conclusions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .workplace import CSV_REPORT, MARKDOWN_REPORT

__all__ = ["PARTS", "Call", "Desk", "Missing", "Part", "region_name", "table_row"]

EXPORTED = ["icao", "iata", "name", "city", "region", "elevation", "lat", "lon"]
REGIONS_LIMIT = 200  # rows; the country with most has 83


class Missing(Exception):
    """The request does not hold what the step needs; the message says what."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a step needs; `label` is unique in the step."""

    label: str
    tool: str
    arguments: dict[str, Any]


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """What the request says: inputs, confirmed facts, this step's results by label."""

    inputs: dict[str, Any]
    facts: dict[str, Any]
    results: dict[str, dict[str, Any]] = {}

    def fact(self, step: str, field: str) -> Any:
        """A field of an earlier step's result."""
        try:
            return self.facts[step][field]
        except (KeyError, TypeError):
            raise Missing(f"no confirmed fact {step!r} with {field!r}") from None

    def input(self, name: str) -> Any:
        """One of the task's inputs."""
        if name not in self.inputs:
            raise Missing(f"no input {name!r}")
        return self.inputs[name]

    def row(self, label: str) -> list[Any]:
        """The only row of a query's result."""
        row: list[Any] = self.results[label]["rows"][0]
        return row


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the job: rounds of calls, then a conclusion from their results."""

    why: str
    rounds: Callable[[Desk], list[list[Call]]]
    conclude: Callable[[Desk], dict[str, Any]]


def region_name(region: str) -> str:
    """A region as a cell of a Markdown table."""
    return region.replace("|", "\\|") or "(no region)"


def table_row(region: str, airports: int, highest: float | None) -> str:
    """One row of the report's table."""
    height = "" if highest is None else f"{highest:.0f}"
    return f"| {region_name(region)} | {airports} | {height} |"


def _query(desk: Desk, label: str, columns: list[str], **more: Any) -> Call:
    where = {"country": desk.input("country"), **more.pop("where", {})}
    arguments = {
        "table": desk.fact("survey", "table"),
        "columns": columns,
        "where": where,
    }
    return Call(label=label, tool="query_rows", arguments=arguments | more)


def _survey(_desk: Desk) -> list[list[Call]]:
    return [[Call(label="tables", tool="list_tables", arguments={})]]


def _surveyed(desk: Desk) -> dict[str, Any]:
    table = next(
        table
        for table in desk.results["tables"]["tables"]
        if set(EXPORTED) <= set(table["columns"])
    )
    return {
        "table": table["name"],
        "columns": table["columns"],
        "rows": table["rows"],
    }


def _collect(desk: Desk) -> list[list[Call]]:
    return [[_query(desk, "count", ["count(*)"])]]


def _collected(desk: Desk) -> dict[str, Any]:
    return {
        "country": desk.input("country"),
        "airports": desk.row("count")[0],
    }


def _check(desk: Desk) -> list[list[Call]]:
    extent = ["min(lat)", "max(lat)", "min(lon)", "max(lon)"]
    return [
        [
            _query(desk, "extent", extent),
            _query(desk, "no-region", ["count(*)"], where={"region": ""}),
        ],
        [_query(desk, "no-iata", ["count(*)"], where={"iata": ""})],
    ]


def _checked(desk: Desk) -> dict[str, Any]:
    south, north, west, east = desk.row("extent")
    return {
        "airports": desk.fact("collect", "airports"),
        "without_region": desk.row("no-region")[0],
        "without_iata": desk.row("no-iata")[0],
        "latitude": [south, north],
        "longitude": [west, east],
    }


def _group(desk: Desk) -> list[list[Call]]:
    columns = ["region", "count(*)", "max(elevation)"]
    return [
        [_query(desk, "regions", columns, group_by=["region"], limit=REGIONS_LIMIT)]
    ]


def _grouped(desk: Desk) -> dict[str, Any]:
    rows = desk.results["regions"]["rows"]
    return {
        "regions": rows,
        "airports": sum(airports for _, airports, _ in rows),
    }


def _export(desk: Desk) -> list[list[Call]]:
    arguments = {
        "name": CSV_REPORT,
        "table": desk.fact("survey", "table"),
        "columns": EXPORTED,
        "where": {"country": desk.fact("collect", "country")},
        "order_by": ["region", "icao"],
    }
    return [[Call(label="csv", tool="write_report", arguments=arguments)]]


def _exported(desk: Desk) -> dict[str, Any]:
    return desk.results["csv"]


def _summarize(desk: Desk) -> list[list[Call]]:
    arguments = {"name": MARKDOWN_REPORT, "text": _markdown(desk)}
    return [[Call(label="markdown", tool="write_report", arguments=arguments)]]


def _summarized(desk: Desk) -> dict[str, Any]:
    return desk.results["markdown"]


def _markdown(desk: Desk) -> str:
    regions = desk.fact("group", "regions")
    airports = desk.fact("collect", "airports")
    south, north = desk.fact("check", "latitude")
    west, east = desk.fact("check", "longitude")
    lines = [
        f"# Airports of {desk.fact('collect', 'country')}",
        "",
        f"{airports} airports in {len(regions)} regions.",
        f"Latitude {south} to {north}, longitude {west} to {east}.",
        f"Without a region: {desk.fact('check', 'without_region')}.",
        f"Without an IATA code: {desk.fact('check', 'without_iata')}.",
        f"All of them, one a line: {desk.fact('export', 'file')}.",
        "",
        "| region | airports | highest (ft) |",
        "| --- | ---: | ---: |",
        *(table_row(*row) for row in regions),
        table_row("total", airports, None),
    ]
    return "\n".join(lines) + "\n"


def _send(desk: Desk) -> list[list[Call]]:
    country = desk.fact("collect", "country")
    names = [desk.fact("export", "file"), desk.fact("summarize", "file")]
    body = (
        f"The airports of {country}: {desk.fact('export', 'rows')} rows in {names[0]}, "
        f"by region in {names[1]}.\n"
    )
    arguments = {
        "to": desk.input("operator"),
        "subject": f"Airports of {country}",
        "body": body,
        "attachments": names,
    }
    return [[Call(label="mail", tool="send_mail", arguments=arguments)]]


def _sent(desk: Desk) -> dict[str, Any]:
    return desk.results["mail"]


PARTS = {
    "survey": Part(
        why="Find the table that has airports.", rounds=_survey, conclude=_surveyed
    ),
    "collect": Part(
        why="Count the airports of the country.", rounds=_collect, conclude=_collected
    ),
    "check": Part(
        why="Look for gaps and impossible coordinates.",
        rounds=_check,
        conclude=_checked,
    ),
    "group": Part(
        why="Count the airports of each region.", rounds=_group, conclude=_grouped
    ),
    "export": Part(
        why="Write all airports to the CSV file.", rounds=_export, conclude=_exported
    ),
    "summarize": Part(
        why="Write the summary from the confirmed facts.",
        rounds=_summarize,
        conclude=_summarized,
    ),
    "send": Part(why="Mail both files to the operator.", rounds=_send, conclude=_sent),
}
