"""What a disturbed run did otherwise than the calm one, in plain words and by tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from ..actors.budget.account import add, limits_of, shown
from ..actors.names import TASK_ROWS
from ..actors.task.rows import TaskRow
from ..storage.memory import MemoryBackend
from ..views_effects import EffectLine, effects
from .trial import NO_PROBE, UNLIKE, Trial

__all__ = ["wrongs"]


def wrongs(run: Trial, stuck: str, calm: Trial, left: Any) -> list[tuple[str, str]]:
    """What is to be looked at after `run`, as (tool or nothing, what).

    `stuck` says why it came to no stop, `left` what the calm run left of the world.
    """
    tools, lines = run.job.agent.tools, _lines(run)
    found = [*_twice(run), *_never_ran(run, lines), *_over_budget(run)]
    result, wanted = run.final, calm.final
    if result is None or wanted is None:
        found.append(("", f"the task came to no stop: {stuck or 'nothing moves it'}"))
    elif result.status != "completed":
        unknown = {one.tool for one in lines if one.status == "unknown"}
        unknown &= {name for name, one in tools.items() if one.effect != "read"}
        why = f"the task stood at {result.status}: {result.reason}"
        if result.reason == "unknown_effect":
            found.extend((tool, NO_PROBE) for tool in sorted(unknown))
        else:
            found.append(("", why))
    else:
        if result.output != wanted.output:
            found.append(("", "the task's output is another one"))
        found.extend(_otherwise(run, calm))
        if run.job.left() != left:
            found.extend((tool, UNLIKE) for tool in _repeated(run) or [""])
    return found


def _lines(run: Trial) -> list[EffectLine]:
    reader = MemoryBackend(run.store).reader(lambda _event, _fields: None)
    return effects(reader, run.task)


def _repeated(run: Trial) -> list[str]:
    """The tools that ran more than once under one request id."""
    times = Counter((act.tool, act.request_id) for act in run.acts)
    return sorted({tool for (tool, _), count in times.items() if count > 1})


def _twice(run: Trial) -> Iterator[tuple[str, str]]:
    """A `once` call that ran more than once under one request id."""
    times = Counter((act.tool, act.request_id) for act in run.acts)
    for (name, _), count in times.items():
        tool = run.job.agent.tools[name]
        if tool.effect == "once" and count > 1:
            probe = ": its probe had not seen it happen" if tool.probe else ""
            yield name, f"one call of a `once` tool ran {count} times{probe}"


def _never_ran(run: Trial, lines: list[EffectLine]) -> Iterator[tuple[str, str]]:
    """An effect that is on record as completed, and that nobody saw happen."""
    ran = {act.request_id for act in run.acts}
    for line in lines:
        tool = run.job.agent.tools.get(line.tool)
        if tool is None or tool.isolate or line.kind != "tool":
            continue
        done = line.status == "completed" and line.reused is None
        if tool.effect != "read" and done and line.request_id not in ran:
            yield line.tool, "an effect is on record as done, and never happened"


def _over_budget(run: Trial) -> Iterator[tuple[str, str]]:
    """Limits of the task's budget that its books are above."""
    if run.job.budget is None:
        return
    raw = run.store.rows.get(TASK_ROWS, {}).get(run.task)
    if raw is None:
        return
    books = msgspec.json.decode(raw, type=TaskRow).books
    used = add(add(books.spent, books.unknown), books.recovery)
    for name, limit in limits_of(run.job.budget).items():
        if (spent := used.get(name, 0)) > limit:
            told = f"{shown({name: spent})} used, {shown({name: limit})} allowed"
            yield "", f"the budget is over its limit: {told}"


def _otherwise(run: Trial, calm: Trial) -> Iterator[tuple[str, str]]:
    """Effects that the calm run had and this one lacks, and the other way round."""
    wanted, had = _effects(calm), _effects(run)
    for (name, arguments), count in (wanted - had).items():
        yield name, f"an effect is lost: {name}({arguments}), {count} too few"
    for (name, arguments), count in (had - wanted).items():
        yield name, f"an effect too many: {name}({arguments}), {count} more"


def _effects(trial: Trial) -> Counter[tuple[str, str]]:
    """How many effects there were of each tool and arguments, repeats left out."""
    tools = trial.job.agent.tools
    meant = {
        (act.tool, act.arguments, act.request_id)
        for act in trial.acts
        if tools[act.tool].effect != "read"
    }
    return Counter((name, arguments) for name, arguments, _ in meant)
