"""`perdure run`: an agent from a module, a task, a runtime to its next stop."""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import operator
import sys
from pathlib import Path
from typing import Any

import msgspec

from . import views, views_text
from .actors.agent import Agent
from .actors.budget.account import Budget
from .cli import (
    DONE,
    INTERRUPTED,
    NOT_ENDED,
    UNDONE,
    add_objects,
    complain,
    say,
    say_json,
    text,
    whole,
)
from .errors import Misuse
from .result import Result
from .runtime import Runtime
from .storage.reader import open_reader

__all__ = ["add_arguments", "load_agent", "run"]

CODES = {
    "completed": DONE,
    "failed": UNDONE,
    "cancelled": UNDONE,
    "erased": UNDONE,
    "paused": NOT_ENDED,
    "parked": NOT_ENDED,
}


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The options of `run`, but for those that all commands share."""
    add = parser.add_argument
    add("agent", metavar="MODULE:AGENT", type=text, help="e.g. jobs:reporter")
    add("--goal", metavar="TEXT", type=_words, required=True, help="what is wanted")
    add("--inputs", metavar="JSON", type=_inputs, default={}, help="a JSON object")
    add(
        "--constraint",
        metavar="TEXT",
        type=_words,
        action="append",
        default=[],
        help="what must hold throughout; may be given again",
    )
    for name, what in (
        ("tokens", "tokens of model calls"),
        ("model-calls", "model calls"),
        ("tool-calls", "tool calls"),
    ):
        add(f"--budget-{name}", metavar="N", type=whole, help=f"at most so many {what}")
    add("--budget-cost", metavar="AMOUNT", type=_words, help="cost at most so much")
    add("--key", type=_words, help="the same key again means the same task")
    add_objects(parser, "where big snapshots go")
    add("--log", metavar="FILE", type=Path, help="write events there, as JSON lines")
    add("--timeout", metavar="S", type=_seconds, help="wait at most so many seconds")


def run(arguments: argparse.Namespace) -> int:
    """Give the agent the task and wait; the runtime is closed before the answer."""
    agent = load_agent(arguments.agent)
    _let_errors_be_seen()
    with Runtime(
        arguments.store, agents=[agent], log=arguments.log, objects=arguments.objects
    ) as runtime:
        handle = runtime.submit(
            agent.name,
            arguments.goal,
            inputs=arguments.inputs,
            constraints=arguments.constraint,
            budget=_budget(arguments),
            key=arguments.key,
        )
        try:
            result = handle.wait(arguments.timeout)
        except TimeoutError:
            stopped, code = None, NOT_ENDED
            complain(
                f"task {handle.id} has not stopped within {arguments.timeout:g} s; it "
                "goes on at the store's next opening"
            )
        except KeyboardInterrupt:
            # Said before the runtime is closed: that may take seconds.
            complain(
                f"interrupted; task {handle.id} goes on at the store's next opening"
            )
            return INTERRUPTED
        else:
            stopped, code = result, CODES[result.status]
    _report(arguments, handle.id, stopped)
    return code


def _report(arguments: argparse.Namespace, task: str, result: Result | None) -> None:
    if result is None:
        with open_reader(arguments.store) as reader:
            line = views.task_line(reader, task)
        if arguments.json:
            say_json(line)
        else:
            say(views_text.tasks_text([line]))
    elif arguments.json:
        say_json(result)
    else:
        say(views_text.result_text(result))


def load_agent(spec: str) -> Agent:
    """Import the agent that ``MODULE:AGENT`` names, the current folder included.

    Raises Misuse where the module does not import or the name is no Agent.
    """
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise Misuse(f"{spec!r} is not MODULE:AGENT; write it like jobs:reporter")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _broken(module_name, error) from None
        raise Misuse(
            f"there is no module {module_name!r} in {folder} or installed; "
            "name one as `import` would, like jobs:reporter"
        ) from None
    except (Exception, SystemExit) as error:
        raise _broken(module_name, error) from None
    try:
        found = operator.attrgetter(path)(module)
    except AttributeError:
        raise Misuse(
            f"module {module_name!r} has no {path!r}; {_agents_of(module)}"
        ) from None
    if not isinstance(found, Agent):
        raise Misuse(
            f"{spec} is a {type(found).__name__}, no Agent; {_agents_of(module)}"
        )
    return found


def _broken(module: str, error: BaseException) -> Misuse:
    return Misuse(
        f"module {module!r} does not import ({type(error).__name__}: {error}); "
        "make `python -c 'import ...'` work for it first"
    )


def _agents_of(module: Any) -> str:
    found = sorted(
        name for name, value in vars(module).items() if isinstance(value, Agent)
    )
    return f"its agents: {', '.join(found) or 'none; make one with Agent(...)'}"


def _budget(arguments: argparse.Namespace) -> Budget | None:
    given = {
        name: getattr(arguments, f"budget_{name}")
        for name in ("tokens", "model_calls", "tool_calls", "cost")
    }
    return Budget(**given) if any(n is not None for n in given.values()) else None


def _let_errors_be_seen() -> None:
    """Without a log of its own a runtime's errors go to stderr, warnings nowhere."""
    logger = logging.getLogger("perdure")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setLevel(logging.ERROR)
        logger.addHandler(handler)


# ── values of options ────────────────────────────────────────────────────────────


def _words(word: str) -> str:
    if not word.strip():
        raise argparse.ArgumentTypeError("it is empty; say it in words")
    return text(word)


def _inputs(word: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text(word), type=dict[str, Any])
    except msgspec.ValidationError:
        raise argparse.ArgumentTypeError(
            f'{word!r} is no JSON object; give one like {{"country": "NO"}}'
        ) from None
    except msgspec.DecodeError as error:
        raise argparse.ArgumentTypeError(
            f'{word!r} is not JSON ({error}); give an object like {{"country": "NO"}}'
        ) from None


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(
            f"{word!r} is no number of seconds above 0; give one like 60"
        )
    return seconds
