"""Keep long agent tasks alive, and look at them.

commands:
  ps            all tasks: status, steps, why one stopped and what lets it go on
  show ID       one task: goal, steps, spending, recoveries
  effects [ID]  contacts with the outside, each with every status it had; with
                --unknown those that may have happened, and that wait for a person
  log ID        its events in order, as a log file has them
  watch ID      its events, and those that come until it has ended: --after SEQ,
                --until stopped, --subtasks; with --json one event a line
  request ID    what the model was shown: the newest request of a task, or that of
                --round N, rendered again from the log; --why says of each unit why
                it was kept, shrunk or dropped, --layers sorts it by layer as JSON
  why ID        why it did that: each iteration with what brought it on, what came back,
                what was ruled out and what acceptance said; recoveries, pauses and who
                ended them: --step NAME, --last N
  checkpoint ID one task as one document: goal, finished steps, what comes next, calls
                with what they were given and gave, side effects, use; as of --at SEQ
  recall QUERY  what tasks did and found, searched by words: --task, --step, --tool,
                --outcome, --since, --until, --limit
  spend [ID]    what one task or all used: --by tool, model, step or day
  run MODULE:AGENT --goal TEXT
                give an agent a task and run it to its next stop; --objects URL keeps
                big snapshots in an object store: s3://BUCKET/PREFIX, file:///FOLDER …
  cancel ID     end a task after the operations in flight
  pause ID      stop a task and its sub-tasks after the operations in flight, until
                it is resumed
  resume ID     let a paused or parked task go on
  retry ID [--from STEP]
                have a step of a task that rests done again, and those that need it;
                by default the step where it stopped
  fork ID [--at SEQ]
                make a task that begins where another stood, now or at a place of the
                log, with a budget of its own: --tokens N and the like, --goal TEXT,
                --key TEXT; prints its id
  adopt ID      let a task go on that is parked since its agent has changed, with the
                agent as it is now; ps says what differs
  extend ID     add to its limits: --tokens N, --model-calls N, --tool-calls N,
                --cost AMOUNT
  limit ID      lower its limits to such amounts; below what is used, it pauses
  approve APPROVAL_ID [--arguments JSON [--tool NAME]]
  reject APPROVAL_ID [--why TEXT]
                answer a call that waits for a person, see show; with arguments it
                becomes another call; to reject takes an approval back
  answer QUESTION_ID ANSWER
                answer what a task asks, see show: a choice, its number, or text
  steer ID TEXT [--replace N]
                give a task a note, which its model reads until the task ends
  resolve EFFECT --happened [--result JSON] | --did-not-happen
                say whether an effect happened whose outcome is unknown
  facts         what is known beyond one task: --scope global, group:NAME or
                task:ID; with --history KEY all that was ever said of it
  know KEY VALUE [--scope SCOPE] [--subject NAME] [--core]
                keep a fact; one of another value ends
  confirm FACT_ID
                make a fact of what a model only supposes; drop FACT_ID ends either
  export ID | --subject NAME
                all that the store holds about a task, or all facts about a
                subject, as lines of JSON: --out FILE
  erase ID | --subject NAME --by NAME --yes
                take it out of the store for good; a task must have ended
  doctor        whether the store is whole, and which live tasks can go on: --agents
                MODULE:AGENT … says with which, --objects URL has it look at snapshots
                in an object store; exits 1 where something was found.
                --repair sets it aside and parks the tasks that it harms, --quarantine
                lists what was set aside, --put-back ITEM … undoes it
  archive ID FILE|URL
                write a task that ended, with its sub-tasks, into one file that can be
                read without perdure, or into an object: s3://BUCKET/NAME …;
                --remove --by NAME erases it from the store then
  import FILE|URL
                bring an archived task back, into this store or another; no runtime may
                have the store open
  upgrade       read every live task of a store at rest, and keep its state as this
                perdure writes it: --dry-run only says what would be done; exits 1
                where a task is held back
  backup FILE   copy the store into a new file, while a runtime works on it or not
  demo          a real report job that is killed and recovered

ps, show, effects, log, watch, request, why, checkpoint, recall, spend, facts, export,
archive, doctor and backup only read: they work while a runtime runs, after it was
killed, on a store at rest, and where nothing may be written. ID may be the beginning of
an id, if no other task's id begins like it.

cancel, pause, resume, retry, fork, adopt, extend, limit, approve, reject, answer,
steer, resolve, know, confirm, drop and erase are kept in the store and applied by the
runtime that has it open, else by the next one. They wait --timeout seconds (5) for its
answer. import and upgrade need the store for themselves, upgrade --dry-run does not.

The store is --store PATH|URL, else PERDURE_STORE, else ./tasks.db. With --json the last
line of stdout is one JSON value.

exit codes:
  0    done; for run: completed
  1    run: the task failed or was cancelled, or the runtime gave up; or stdout failed;
       cancel and the like: the runtime did not do it, and says why
  2    misuse: one sentence on stderr, nothing was changed
  3    run: the task is paused or parked, or goes on after --timeout; cancel and the
       like: no answer yet, the command is kept
  130  interrupted; a task of run goes on at the store's next opening
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from .actors.errors import Misuse, PerdureError

__all__ = [
    "DONE",
    "INTERRUPTED",
    "MISUSE",
    "NOT_ENDED",
    "UNDONE",
    "add_objects",
    "complain",
    "main",
    "say",
    "say_json",
    "text",
    "whole",
]

DONE = 0
UNDONE = 1
MISUSE = 2
NOT_ENDED = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
PIPE_CLOSED = 141  # 128 + SIGPIPE
STORE = "tasks.db"
LONGEST = 15  # digits of a number
COMMANDS: dict[str, tuple[str, str]] = {  # where each is, and what it does
    "ps": (".cli_read", "List all tasks."),
    "show": (".cli_read", "Show one task."),
    "effects": (".cli_read", "Show contacts with the outside."),
    "log": (".cli_read", "Show a task's events in order."),
    "watch": (".cli_watch", "Show a task's events, and those that come."),
    "request": (".cli_read", "Show what the model was shown."),
    "spend": (".cli_read", "Show what one task, or all of them, used."),
    "why": (".cli_why", "Tell why a task did what it did."),
    "checkpoint": (".cli_checkpoint", "Show a task as one document."),
    "recall": (".cli_recall", "Search what tasks did and found."),
    "run": (".cli_run", "Run an agent's task to its next stop."),
    "cancel": (".cli_ask", "End a task after the operations in flight."),
    "pause": (".cli_ask", "Stop a task and its sub-tasks until it is resumed."),
    "resume": (".cli_ask", "Let a paused or parked task go on."),
    "retry": (".cli_again", "Have a step of a task done again."),
    "fork": (".cli_again", "Make a task that begins where another stood."),
    "adopt": (".cli_adopt", "Let a task go on whose agent has changed."),
    "extend": (".cli_ask", "Add to a task's limits; one paused for money goes on."),
    "limit": (".cli_ask", "Lower a task's limits; below what is used, it pauses."),
    "approve": (".cli_ask", "Let a call run that waits for a person, or change it."),
    "reject": (
        ".cli_ask",
        "Refuse a call that waits for a person, even if it is approved.",
    ),
    "answer": (".cli_people", "Answer what a task asks."),
    "steer": (".cli_people", "Give a task a note that its model reads."),
    "resolve": (
        ".cli_ask",
        "Say whether an effect happened whose outcome is unknown.",
    ),
    "facts": (".cli_facts", "List what is known beyond one task."),
    "know": (".cli_facts", "Keep a fact; one of another value ends."),
    "confirm": (".cli_facts", "Make a fact of a hypothesis."),
    "drop": (".cli_facts", "End a fact or a hypothesis that does not hold."),
    "export": (".cli_export", "Write all that is held about a task, or a subject."),
    "erase": (".cli_ask", "Take an ended task, or facts, out of the store for good."),
    "doctor": (".cli_doctor", "Say whether a store is whole, and what can go on."),
    "archive": (".cli_archive", "Write a task that ended into one file."),
    "import": (".cli_archive", "Bring an archived task back."),
    "upgrade": (".cli_upgrade", "Bring a store at rest to this perdure's versions."),
    "backup": (".cli_backup", "Copy a store that may be in use."),
    "demo": (".demo.command", "Kill and recover a real report job."),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` gives (the process's own by default).

    Returns the exit code. Never raises for what a user, a store or a pipe may do.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _main(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _stop_writing()
        return PIPE_CLOSED
    except OSError as error:
        complain(f"cannot go on: {error.strerror or error}")
        _stop_writing()
        return UNDONE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except SystemExit as end:  # --help ends so
        return end.code if isinstance(end.code, int) else MISUSE
    return code


def _main(words: list[str]) -> int:
    from .errors import RuntimeClosed, RuntimeFailed
    from .storage.errors import StorageError

    try:
        arguments = _parser(words).parse_args(words)
        act: Callable[[argparse.Namespace], int] = arguments.act
        return act(arguments)
    except (RuntimeFailed, RuntimeClosed, TimeoutError) as error:
        complain(str(error))
        return UNDONE
    except (PerdureError, StorageError) as error:
        complain(str(error))
    except msgspec.MsgspecError as error:
        complain(f"the store holds what this perdure cannot read ({error}); use newer")
    return MISUSE


# ── words ────────────────────────────────────────────────────────────────────────


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message}; see `{self.prog} --help`")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").partition("\n")
    parser = _Parser(
        prog="perdure",
        description=first,
        epilog=rest.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="perdure COMMAND [options]",
    )
    commands = parser.add_subparsers(metavar="COMMAND", prog="perdure", required=True)
    for name, (module, about) in COMMANDS.items():
        made = commands.add_parser(name, description=about, allow_abbrev=False)
        if words[:1] == [name]:  # only what is asked for is imported
            part = importlib.import_module(module, __package__)
            part.add_arguments(made, name)
            made.set_defaults(act=part.run)
            if name != "demo":
                _reading(made)
    return parser


def _reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="PATH|URL",
        default=os.environ.get("PERDURE_STORE") or STORE,
        help="its file, dir:FOLDER or postgresql://HOST/DATABASE (PERDURE_STORE, else "
        f"./{STORE})",
    )
    parser.add_argument(
        "--json", action="store_true", help="end with one JSON value on a line"
    )


def add_objects(parser: argparse.ArgumentParser, about: str) -> None:
    """The option that names an object store beside the store."""
    parser.add_argument(
        "--objects",
        metavar="URL",
        type=text,
        default=os.environ.get("PERDURE_OBJECTS") or None,
        help=f"{about}: s3://BUCKET/PREFIX, file:///FOLDER … (PERDURE_OBJECTS)",
    )


def text(word: str) -> str:
    """An argument as text that can be stored."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{word!r} is not valid UTF-8") from None
    return word


def whole(word: str) -> int:
    """An argument as a whole number from 0 on; no amount or seq has over 15 digits."""
    if not (word.isascii() and word.isdecimal()) or len(word) > LONGEST:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number")
    return int(word)


# ── output ───────────────────────────────────────────────────────────────────────


def say(lines: Iterable[str]) -> None:
    """Write lines to stdout; what its encoding lacks is shown as an escape."""
    out = sys.stdout
    if out is None:
        return
    for line in lines:
        try:
            out.write(line + "\n")
        except UnicodeEncodeError:
            encoding = out.encoding
            plain = line.encode(encoding, "backslashreplace").decode(encoding)
            out.write(plain + "\n")


def say_json(value: Any) -> None:
    """Write one JSON value on a line, in ASCII: it is JSON in any encoding."""
    say([json.dumps(msgspec.to_builtins(value))])


def complain(message: str) -> None:
    """Write one sentence to stderr."""
    sentence = " ".join(message.split())
    if sys.stderr is not None:
        sys.stderr.write(f"perdure: {sentence}\n")


def _stop_writing() -> None:
    """Stdout takes no more: keep the interpreter's last flush quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # a stdout that is no file
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
