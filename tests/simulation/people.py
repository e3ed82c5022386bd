"""People who answer approvals: soon, late, twice, here or from another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from perdure.storage.records import Command
from tests.simulation.schedule import NEVER, Reply

if TYPE_CHECKING:
    from tests.simulation.run import Run

__all__ = ["People"]

CALLER = "caller"  # gives one answer to an approval, and tries it again
AT_ONCE = Reply(delay=0, approved=True, inbox=False, again=False)
LATER = 15  # steps until somebody else answers what was answered
SOON = 3  # steps until a call that came to nothing is made again


class _Answer(msgspec.Struct, kw_only=True):
    step: int
    approval: str
    task: str
    approved: bool
    inbox: bool


class People:
    """They see what is asked on the disk, as `perdure approvals` does."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen = 0  # entries
        self._asked: dict[str, str] = {}  # approval -> task, in order
        self._open: list[_Answer] = []
        self._sent = 0  # commands
        self._accepted: set[str] = set()

    def act(self) -> bool:
        """Give one answer that is due, if there is one."""
        self._look()
        step = self._run.step
        due = next((one for one in self._open if one.step <= step), None)
        if due is None:
            return False
        self._give(due)
        return True

    def act_while_down(self) -> None:
        """Another process need not wait for this one."""
        self._look()
        for one in [one for one in self._open if one.inbox and one.step < NEVER]:
            self._give(one)

    def owe(self, task: str) -> bool:
        """Whether a task waits for an answer that nobody has given."""
        self._look()
        return any(one.task == task for one in self._open)

    def answer_all(self, task: str = "") -> None:
        """Give what is left to be answered, of one task or of all."""
        self._look()
        for one in [one for one in self._open if task in ("", one.task)]:
            self._give(one)

    def stray(self, task: str) -> str:
        """Send an answer that nobody waits for; an approval that a task never asked."""
        self._look()
        self._send("a-nobody", approved=True)
        others = (one for one, owner in self._asked.items() if owner != task)
        return next(others, "a-nobody")

    @property
    def unanswered(self) -> list[str]:
        """The commands that the runtime has not answered."""
        answers = self._run.store.rows.get("answer", {})
        return [one.id for one in self._run.store.inbox if one.id not in answers]

    def _look(self) -> None:
        entries = self._run.witness.look()
        for one in entries[self._seen :]:
            if one.type == "ApprovalAsked" and one.body["approval"] not in self._asked:
                self._open.extend(self._answers(one.body["approval"], one.task))
        self._seen = len(entries)

    def _answers(self, approval: str, task: str) -> Iterator[_Answer]:
        replies = self._run.schedule.replies
        place = len(self._asked)
        self._asked[approval] = task
        reply = replies[place] if place < len(replies) else AT_ONCE
        step = NEVER if reply.delay == NEVER else self._run.step + reply.delay
        first = _Answer(
            step=step,
            approval=approval,
            task=task,
            approved=reply.approved,
            inbox=reply.inbox,
        )
        yield first
        if reply.again:
            yield msgspec.structs.replace(
                first,
                step=min(step + LATER, NEVER),
                approved=not reply.approved,
                inbox=not reply.inbox,
            )

    def _give(self, one: _Answer) -> None:
        self._open.remove(one)
        if one.inbox:
            self._send(one.approval, approved=one.approved)
            return
        run = self._run
        runtime = run.process.runtime
        done = run.callers.attempt(
            "answer",
            one.task,
            lambda: runtime.answer(
                one.task, one.approval, CALLER, "", approved=one.approved
            ),
        )
        if run.process.dead or done is None:  # whoever answers, tries again
            one.step = run.step + SOON
            self._open.append(one)
            return
        run.witness.look()
        kept = run.witness.verdicts.get(one.approval, [])
        if done:
            run.findings.check(
                "once_at_most_once",
                one.approval not in self._accepted,
                lambda: f"{one} was taken twice",
            )
            self._accepted.add(one.approval)
            held = any(
                (said["by"], said["approved"]) == (CALLER, one.approved)
                for said in kept
            )
        else:
            row = run.store.rows["approval"][one.approval]
            held = bool(kept) or json.loads(row)["status"] != "open"
        run.findings.check(
            "acked_durable", held, lambda: f"{one} was answered {done}, kept: {kept}"
        )

    def _send(self, approval: str, *, approved: bool) -> None:
        run = self._run
        self._sent += 1
        command = Command(
            id=f"c-{self._sent}",
            kind="approve" if approved else "reject",
            subject=approval,
            at=run.clock.time(),
            body=json.dumps({"by": f"c-{self._sent}"}).encode(),
        )
        run.store.send(command)
