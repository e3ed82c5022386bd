"""Commands of the inbox: each is applied once, with its answer beside it.

The event that says so carries the command's id and stands in the transaction of what
was done. A command without an answer is taken up again by the next incarnation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ...storage.erasure import ERASED
from ...storage.errors import Undecodable
from ...storage.inbox import answer_row
from ...storage.reader import Reader
from ...storage.records import Command, Row
from ...supervision.faults import hit
from ..budget.account import why_not_extended
from ..events import Amounts, CommandApplied, Event
from ..memory.facts import Said
from ..names import MEMORY, POOL, TASK_ROWS, fork_id
from ..protocol import (
    Adopt,
    Answer,
    Cancel,
    ChangeFact,
    Enlarge,
    Erase,
    EraseFacts,
    FactChanged,
    Fork,
    Pause,
    Reply,
    Resolve,
    Resume,
    Retry,
    Steer,
    WakeAgain,
)
from ..task.rows import ENDED, TaskRow
from .first import First, first_of, submitted_of

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["CommandAnswer", "CommandBody", "Commands"]

MORE = "extend by at least one amount above 0"


class CommandBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command says besides its kind and its task or approval.

    `amounts` is for `extend` and `limit`; for `resolve` it names an attempt of an
    operation, and says whether it `happened` and what text it gave; for `approve` JSON
    `arguments`, with a `tool` or without, are the call that is to be made instead;
    `compensate` is for `cancel`, `fact` for `know`, `about` for `erase`: a subject;
    `text` is for `answer`, `adopt` and `steer`, which may `replace` a note; `step` is
    for `retry`, `at`, `goal` and `key` for `fork`, beside `amounts`.
    """

    by: str = "somebody"
    why: str = ""
    amounts: dict[str, int] = {}
    op: int = 0
    attempt: int = 0
    happened: bool | None = None
    result: str = ""
    compensate: bool = False
    tool: str = ""
    arguments: str = ""
    fact: Said | None = None
    about: str = ""
    text: str = ""
    replace: int = 0
    step: str = ""
    at: int | None = None
    goal: str = ""
    key: str | None = None


class CommandAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a sender reads beside its command."""

    done: bool
    said: str


class Commands:
    """Admission's part for the inbox."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._seen = 0  # the place of the last command that was taken up
        self._extending: dict[str, tuple[Command, CommandBody]] = {}  # by grant
        self._telling: dict[str, Command] = {}  # what memory is asked, by command

    def look(self) -> None:
        """Take up the commands that came; while the runtime closes they stay."""
        admission = self._admission
        if admission.drains is not None:
            return

        def found(commands: Sequence[Command]) -> None:
            for command in commands:
                if command.place > self._seen:
                    self._seen = command.place
                    self._take_up(command)

        admission.read(lambda reader: reader.commands(self._seen), found)

    def apply(
        self,
        command: str,
        kind: str,
        task: str,
        done: bool,
        said: str,
        *events: Event,
        rows: Sequence[Row] = (),
    ) -> None:
        """Append what a command does, with its answer."""
        applied = CommandApplied(
            command=command, kind=kind, task=task, done=done, said=said
        )
        answer = msgspec.json.encode(CommandAnswer(done=done, said=said))
        rows = [*rows, answer_row(command, answer)]
        self._admission.append(*events, applied, rows=rows)
        hit("inbox.applied", kind)

    def _take_up(self, command: Command) -> None:
        try:
            body = msgspec.json.decode(command.body, type=CommandBody)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._refuse(command, f"the command cannot be read: {error}")
            return
        task = command.subject
        match command.kind:
            case "approve" | "reject" as kind:
                answer = Answer(
                    approval=task,
                    task="",
                    approved=kind == "approve" and not body.arguments,
                    by=body.by,
                    why=body.why,
                    tool=body.tool,
                    arguments=body.arguments if kind == "approve" else "",
                    command=command.id,
                )
                self._admission.answers.answer(answer)
            case "answer":
                reply = Reply(
                    task="",
                    question=task,
                    text=body.text,
                    by=body.by,
                    command=command.id,
                )
                self._admission.questions.reply(reply)
            case "steer":
                steer = Steer(
                    task=task,
                    text=body.text,
                    replace=body.replace,
                    by=body.by,
                    command=command.id,
                )
                self._admission.steering.steer(steer)
            case "resolve" if body.happened is not None:
                resolve = Resolve(
                    task=task,
                    op=body.op,
                    attempt=body.attempt,
                    happened=body.happened,
                    result=body.result,
                    by=body.by,
                    command=command.id,
                )
                self._admission.verdicts.resolve(resolve)
            case "resolve":
                self._refuse(command, "say whether it happened: true or false")
            case "retry":
                retry = Retry(task=task, step=body.step, by=body.by, command=command.id)
                self._admission.retries.retry(retry)
            case "adopt":
                adopt = Adopt(
                    task=task, digest=body.text, by=body.by, command=command.id
                )
                self._admission.vetting.adopt(adopt)
            case "fork":
                fork = Fork(
                    task=task,
                    new=fork_id(command.id),
                    at=body.at,
                    budget=body.amounts or None,
                    goal=body.goal,
                    key=body.key,
                    by=body.by,
                    command=command.id,
                )
                self._admission.forks.fork(fork)
            case "erase" if body.about:
                self._erase_facts(command, body)
            case "erase":
                erase = Erase(task=task, by=body.by, command=command.id)
                self._admission.erasing.erase(erase)
            case kind if kind == ERASED:
                self._refuse(command, "what it was about is erased")
            case "cancel" | "pause" | "resume" | "extend" | "limit":
                self._with_task(command, body)
            case "know" if body.fact is not None:
                self._change(command, "know", body.fact, body.by)
            case "know":
                self._refuse(command, "say the fact: its key and its value")
            case "confirm" | "drop" as kind:
                self._change(command, kind, task, body.by)
            case kind:
                self._refuse(command, f"this perdure knows no command {kind!r}")

    def _with_task(self, command: Command, body: CommandBody) -> None:
        admission = self._admission
        task = command.subject

        def found(values: tuple[bytes | None, First]) -> None:
            row, first = values
            if row is None:
                self._refuse(command, f"there is no task {task!r}")
                return
            match command.kind:
                case "cancel":
                    message = Cancel(
                        task=task,
                        by=body.by,
                        compensate=body.compensate,
                        command=command.id,
                    )
                    admission.callers.cancel(message)
                case "resume":
                    resume = Resume(task=task, by=body.by, command=command.id)
                    admission.pausing.resume(resume)
                case "pause":
                    pause = Pause(task=task, by=body.by, command=command.id)
                    admission.pausing.pause(pause)
                case _:
                    status = msgspec.json.decode(row, type=TaskRow).status
                    limits: Amounts = {}
                    if status not in ENDED:
                        try:
                            submitted = submitted_of(
                                task, first, admission.house.event_of
                            )
                        except Undecodable as error:
                            self._refuse(command, str(error))
                            return
                        limits = submitted.budget
                    self._extend(command, body, status, limits)

        def look(reader: Reader) -> tuple[bytes | None, First]:
            return reader.row(TASK_ROWS, task), first_of(reader, task)

        admission.read(look, found)

    def _extend(
        self, command: Command, body: CommandBody, status: str, limits: Amounts
    ) -> None:
        admission = self._admission
        task = command.subject
        lower = command.kind == "limit"
        wrong = ""
        if not lower:
            shared = admission.house.pool
            wrong = why_not_extended(task, limits, shared, body.amounts)
        if status in ENDED:
            wrong = f"task {task} has ended ({status}); nothing to {command.kind}"
        elif not body.amounts or min(body.amounts.values()) < 0:
            wrong = "limit to at least one amount" if lower else MORE
        if wrong:
            self._refuse(command, wrong)
            return
        # The command names the grant: the pool gives it once, however often asked.
        grant = f"{task}/{command.id}"
        self._extending[grant] = (command, body)
        message = Enlarge(
            task=task,
            grant=grant,
            amounts=body.amounts,
            lower=lower,
            reply_to=admission.address,
        )
        pool = admission.house.address(POOL)
        admission.requests.send(("extend", grant), pool, message)

    def enlarged(self, grant: str, refusal: str | None) -> None:
        """The pool gave the grant of an `extend` or a `limit`, or did not."""
        admission = self._admission
        if not admission.requests.answered(("extend", grant)):
            return
        command, body = self._extending.pop(grant)
        if refusal is not None:
            lower = command.kind == "limit"
            done = "its limits cannot be lowered" if lower else "it cannot be extended"
            self._refuse(command, f"{done}: {refusal}")
            return
        if command.kind == "limit":  # an active task is refused what is beyond it
            said = "its limits are lowered"
            self.apply(command.id, command.kind, command.subject, True, said)
            return
        admission.callers.wake_again(
            WakeAgain(task=command.subject, by=body.by, command=command.id)
        )

    def _change(
        self,
        command: Command,
        kind: Literal["know", "confirm", "drop"],
        what: Said | str,
        by: str,
    ) -> None:
        """Have memory change a fact; the command names that, so it is done once."""
        admission = self._admission
        self._telling[command.id] = command
        message = ChangeFact(
            request=command.id,
            kind=kind,
            what=what,
            by=by,
            reply_to=admission.address,
        )
        memory = admission.house.address(MEMORY)
        admission.requests.send(("fact", command.id), memory, message)

    def _erase_facts(self, command: Command, body: CommandBody) -> None:
        admission = self._admission
        self._telling[command.id] = command
        message = EraseFacts(
            request=command.id,
            subject=body.about,
            by=body.by,
            command=command.id,
            reply_to=admission.address,
        )
        memory = admission.house.address(MEMORY)
        admission.requests.send(("fact", command.id), memory, message)

    def changed(self, message: FactChanged) -> None:
        """Memory kept, confirmed or dropped a fact, or did not."""
        if self._admission.requests.answered(("fact", message.request)):
            command = self._telling.pop(message.request)
            # Not its subject: that may be a fact's, and is forgotten on demand.
            self.apply(command.id, command.kind, "", message.done, message.said)

    def _refuse(self, command: Command, why: str) -> None:
        self.apply(command.id, command.kind, command.subject, False, why)
