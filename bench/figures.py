"""Which figures of which bench go into RESULTS.md, and what is wanted of them.

A bench that is not named here goes in with every plain number that it prints.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from plot import Panel, Series

__all__ = ["FIGURES", "Figure", "find", "met", "panels", "shown"]


class Figure(NamedTuple):
    """One row: where it stands in the bench's JSON, and its bound, if it has one."""

    path: str
    wanted: str = ""


FIGURES: dict[str, tuple[Figure, ...]] = {
    "steps": (
        Figure("raw_commits_per_s"),
        Figure("one_task_ops_per_s"),
        Figure("ratio_one_task", "≥ 0.5"),
        Figure("hundred_tasks_ops_per_s"),
        Figure("ratio_hundred_tasks", "≥ 2"),
        Figure("ratio_busy_host"),
        Figure("kept_with_log", "≥ 0.8"),
        Figure("cpu_us_per_op"),
        Figure("cpu_us_hundred"),
        Figure("cpu_us_in_memory", "≤ 150"),
        Figure("flushes_per_op"),
        Figure("bytes_per_op", "≤ 1500"),
    ),
    "recovery": (
        Figure("ms_thousand"),
        Figure("ms_million", "< 50"),
        Figure("thousand_tasks_s", "< 5"),
        Figure("thousand_queued_s", "< 5"),
    ),
    "waiting": (
        Figure("threads_added", "≤ 0"),
        Figure("memory_mib_added", "< 50"),
        Figure("store_mib", "< 300"),
        Figure("idle_cpu", "< 0.01"),
        Figure("start_s", "< 1"),
        Figure("timer_late_s", "< 0.2"),
    ),
    "postgres": (
        Figure("raw_commits_per_s"),
        Figure("one_task_ops_per_s"),
        Figure("ratio_one_task", "≥ 0.35"),
        Figure("hundred_tasks_ops_per_s"),
        Figure("ratio_hundred_tasks", "≥ 1"),
        Figure("cpu_us_per_op"),
        Figure("cpu_us_hundred"),
        Figure("bytes_per_op"),
        Figure("wal_bytes_per_op"),
    ),
    "peers": (
        Figure("raw_commits_per_s"),
        Figure("peers.perdure.one_ops_per_s"),
        Figure("peers.perdure.hundred_ops_per_s"),
        Figure("peers.perdure.resume_s"),
        Figure("peers.perdure.store_bytes"),
        *(
            Figure(path.format(name), wanted.get(path, ""))
            for name, wanted in (
                ("langgraph", {"perdure_to_peer.{}.hundred": "≥ 10"}),
                ("langgraph_delta", {"perdure_to_peer.{}.hundred": "≥ 10"}),
                ("dbos", {"perdure_to_peer.{}.hundred": "≥ 10"}),
                ("dbos_postgres", {"perdure_to_peer.{}.hundred": "≥ 8"}),
            )
            for path in (
                "peers.{}.one_ops_per_s",
                "peers.{}.hundred_ops_per_s",
                "perdure_to_peer.{}.one",
                "perdure_to_peer.{}.hundred",
                "peers.{}.resume_s",
                "peers.{}.store_bytes",
            )
        ),
    ),
    "growth": (
        Figure("once.bytes_per_op", "≤ 1500"),
        Figure("once.ratio", "≥ 0.75"),
        Figure("once.left"),
        Figure("model.bytes_per_op"),
        Figure("model.left"),
    ),
    "fit": (
        Figure("ms_2000", "< 100"),
        Figure("linear", "≤ 2"),
        Figure("append_growth", "≤ 2"),
    ),
}


def find(result: dict[str, Any], path: str) -> Any:
    """What stands at a dotted path.

    Raises KeyError naming the path.
    """
    found: Any = result
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            raise KeyError(path)
        found = found[name]
    return found


def shown(result: dict[str, Any], path: str) -> str:
    """The figure as text: a list is a median and its range, as is one beside it."""
    found = find(result, path)
    head, _, last = path.rpartition(".")
    beside = find(result, head) if head else result
    if isinstance(found, list):
        found, *spread = found
    else:
        spread = beside.get(f"{last}_range", [])
    said = _number(found)
    if len(spread) == 2:
        said += f" ({_number(spread[0])} to {_number(spread[1])})"
    return said


def met(result: dict[str, Any], figure: Figure) -> bool:
    """Whether a figure is within its bound."""
    found = find(result, figure.path)
    value = found[0] if isinstance(found, list) else found
    sign, bound = figure.wanted.split()
    limit = float(bound)
    match sign:
        case "≥":
            return bool(value >= limit)
        case "≤":
            return bool(value <= limit)
        case "<":
            return bool(value < limit)
    raise ValueError(figure.wanted)


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:g}"
    return f"{value:,}" if type(value) is int else str(value)


def panels(results: dict[str, dict[str, Any]]) -> list[Panel]:
    """Cost against size, from the benches that ran."""
    candidates = (
        Panel(
            "A restart, by the task's length",
            "events of the task",
            "ms to its first operation",
            [Series("perdure", _recovered(results))],
        ),
        Panel(
            "Going on after a kill, by the task's length",
            "operations of the task",
            "ms from opening to the next one",
            [
                Series(name, [(steps, s * 1e3) for steps, s, _ in own["lengths"]])
                for name, own in _peers(results).items()
            ],
        ),
        Panel(
            "Rate, by tasks at once",
            "tasks",
            "operations a second",
            [
                Series("perdure", _pairs(results, "steps", _STEPS)),
                Series("raw loop", _pairs(results, "steps", _RAW)),
                *(
                    Series(name, [(1, own["one_ops_per_s"][0]), (100, hundred[0])])
                    for name, own in _peers(results).items()
                    if name != "perdure" and (hundred := own["hundred_ops_per_s"])
                ),
            ],
        ),
        Panel(
            "Fitting a history into 16,000 characters",
            "exchanges",
            "ms of CPU",
            [
                Series(
                    "perdure",
                    [
                        (size, size * us / 1e3)
                        for size, us in _sizes(results, "fit", "us_an_exchange")
                    ],
                )
            ],
        ),
        Panel(
            "The store, by the task's length",
            "operations of the task",
            "bytes",
            [
                Series("perdure", _grown(results)),
                *(
                    Series(name, [(steps, size) for steps, _, size in own["lengths"]])
                    for name, own in _peers(results).items()
                    if not name.startswith("perdure") or not _grown(results)
                ),
            ],
        ),
    )
    kept = [
        panel._replace(series=[one for one in panel.series if one.points])
        for panel in candidates
    ]
    return [panel for panel in kept if panel.series]


_RAW = ((1, "raw_commits_per_s"), (100, "raw_commits_per_s"))
_STEPS = ((1, "one_task_ops_per_s"), (100, "hundred_tasks_ops_per_s"))


def _pairs(
    results: dict[str, dict[str, Any]],
    bench: str,
    places: tuple[tuple[float, str], ...],
) -> list[tuple[float, float]]:
    own = results.get(bench, {})
    return [(x, own[name]) for x, name in places if name in own]


def _sizes(
    results: dict[str, dict[str, Any]], bench: str, name: str
) -> list[tuple[float, float]]:
    found: dict[str, float] = results.get(bench, {}).get(name, {})
    return [(float(size), figure) for size, figure in found.items()]


def _recovered(results: dict[str, dict[str, Any]]) -> list[tuple[float, float]]:
    own = results.get("recovery", {})
    took = [own[name] for name in ("ms_thousand", "ms_million") if name in own]
    return list(zip(own.get("events", []), took, strict=True))


def _peers(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = results.get("peers", {}).get("peers", {})
    return found


def _grown(results: dict[str, dict[str, Any]]) -> list[tuple[float, float]]:
    own = results.get("growth", {}).get("once", {})
    return list(zip(own.get("ops", []), own.get("bytes", []), strict=True))
