"""The task's part for acceptance: nothing is complete without it.

answer -> one judge after another, off the dispatcher -> completed, or refused
                                                      -> the same for the whole task
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from ...supervision.faults import hit
from ..acceptance import Accept, AllOf, ModelJudge, Verdict, View
from ..accepting.checks import Check
from ..accepting.combine import Path, part_at, settled
from ..accepting.hung import Hung
from ..accepting.ruling import ruled, verdict_of
from ..accepting.standin import NO_FAILED_CALLS, TASK_JUDGES, stands_in
from ..agent import Agent
from ..context.measure import canonical
from ..events import AnswerRefused, PlanStep, Ruling, StepEnded
from ..executor.executor import Outcome, Work
from ..plan.accepting import accept_of
from ..plan.standing import output_step
from ..policy import is_async
from .commands import Judge, JudgeTask, StopFor
from .failing import shown
from .opinions import TRIES, asks, opinion_of
from .tries import tries_left
from .values import output_of, parsed

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Judged", "Judging"]

Trouble: TypeAlias = Literal["acceptance_error", "timed_out"]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One judge of an answer has ended; `op` 0 is the whole task."""

    op: int
    at: Path
    outcome: Outcome


class Hearing(msgspec.Struct, kw_only=True):
    """One answer before its judges: what they said so far, for this incarnation.

    `retries` are those of the task: its next try is another answer.
    """

    op: int
    retries: int
    step: str
    text: str
    accept: Accept
    output: type[msgspec.Struct] | None = None
    given: dict[Path, Verdict] = msgspec.field(default_factory=dict)
    rulings: tuple[Ruling, ...] = ()


class Judging:
    """Nothing is complete without acceptance; raising or hanging is never a pass.

    `accepted` is what the judges of the whole task said, once they accepted it.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._hearing: Hearing | None = None
        self.accepted: tuple[Ruling, ...] = ()

    def judge_step(self, op: int) -> None:
        """Have the running step's answer judged, once what it rests on is flushed."""
        task = self._task
        step = task.state.step
        assert step is not None
        text = task.operations.exchanges.answer(op)
        if not text:
            self._refuse(op, "the answer was empty")
            return
        planned = next(one for one in task.state.plan if one.id == step.id)
        accept = acceptance_of(task.agent, planned)
        if isinstance(accept, str):
            self._in_trouble("acceptance_error", accept)
            return
        self._open(op, step.id, text, accept)

    def judge_task(self) -> None:
        """Have the output of the task judged: its form, then its content."""
        agent = self._task.agent
        parts: list[Accept] = [] if agent.output is None else [_form(agent.output)]
        parts += [] if agent.accept is None else [agent.accept]
        text = output_of(self._task.state)
        self._open(0, "", text, AllOf(tuple(parts or [TASK_JUDGES])), agent.output)

    def _open(
        self,
        op: int,
        step: str,
        text: str,
        accept: Accept,
        output: type[msgspec.Struct] | None = None,
    ) -> None:
        retries = self._task.state.retries
        hearing = self._hearing
        if hearing is None or (hearing.op, hearing.retries) != (op, retries):
            hearing = self._hearing = Hearing(
                op=op,
                retries=retries,
                step=step,
                text=text,
                accept=accept,
                output=output,
            )
        self._go_on(hearing)

    def _go_on(self, hearing: Hearing) -> None:
        """Ask the next judge, or do as they said."""
        found = settled(hearing.accept, hearing.given)
        if isinstance(found, Verdict):
            self._hearing = None
            self._decided(hearing, found)
        else:
            self._ask(hearing, found)

    def _ask(self, hearing: Hearing, at: Path) -> None:
        task = self._task
        judge = part_at(hearing.accept, at)
        if isinstance(judge, ModelJudge):
            self._ask_model(hearing, at, judge)
            return
        view = self._view(hearing.step)
        rules = task.house.baseline
        address = task.address

        def deliver(outcome: Outcome) -> None:
            address.tell(Judged(op=hearing.op, at=at, outcome=outcome))

        number = f"{hearing.step}/{hearing.op}"
        if not hearing.op:
            number = f"task/{task.state.version}"
        place = "".join(f".{one}" for one in at)
        work = Work(
            key=(task.id, f"accept {number}{place}"),
            name="accept",
            effect="read",
            call=_call(judge, hearing, at, view),
            coroutine=is_async(judge),
            timeout=rules.acceptance_timeout,
            not_after=task.house.now() + rules.acceptance_timeout,
            until=task.state.task.deadline,
            deliver=deliver,
        )
        executor = task.house.executor
        task.when_durable(task.last_seq, lambda: executor.run(work))

    def _ask_model(self, hearing: Hearing, at: Path, judge: ModelJudge) -> None:
        """Take what a model said of the answer already, or have it asked."""
        task = self._task
        verdict, tries, why = opinion_of(task.state, judge, hearing.op)
        if verdict is not None:
            self._take(hearing, at, verdict)
        elif tries >= TRIES:
            why = f"the judging model gave no verdict {tries} times: {why}"
            self._take(hearing, at, Verdict(ok=False, why=why), "acceptance_error")
        elif task.parting.stopping is not None or task.parting.draining:
            task.under_way.discard(Judge(hearing.op))
            task.under_way.discard(JudgeTask(hearing.retries))
        else:
            task.append(asks(task.state, judge, hearing.op))
            hit("task.decided", "model")

    def _view(self, step: str) -> View:
        state = self._task.state
        return View(
            task=self._task.id,
            step=step,
            goal=state.task.goal,
            inputs=copy.deepcopy(state.task.inputs),  # it is the caller's to harm
            facts={
                one.id: parsed(one.result)
                for one in state.steps
                if one.status == "completed"
            },
            failed=shown(state.failing),
        )

    def judged(self, message: Judged) -> None:
        """Take what a judge said; one asked for before a crash is asked for again."""
        task = self._task
        outcome = message.outcome
        hearing = self._hearing
        # The runtime is closing: judged after the next start. Or nobody has looked at
        # the answer yet, since the clock was set or no thread was free: asked again.
        if outcome.refused or outcome.late:
            task.under_way.discard(Judge(message.op))
            task.under_way.discard(JudgeTask(task.state.retries))
            return
        if outcome.status == "unknown" and not task.time_left():
            return  # cut off by the task's deadline, which is why the task stops
        if hearing is None or hearing.op != message.op or not self._stands(hearing):
            return
        if message.at in hearing.given:
            return
        self._take(hearing, message.at, *_heard(outcome))

    def _take(
        self,
        hearing: Hearing,
        at: Path,
        verdict: Verdict,
        trouble: Trouble | None = None,
    ) -> None:
        """Note what a judge said, and go on to the next one."""
        judge = part_at(hearing.accept, at)
        if not stands_in(judge) or not verdict.ok:
            hearing.rulings += (ruled(judge, verdict),)
        if trouble is not None:
            self._hearing = None
            self._in_trouble(trouble, verdict.why, hearing.rulings)
            return
        hearing.given[at] = verdict
        self._go_on(hearing)

    def _stands(self, hearing: Hearing) -> bool:
        """Whether the answer is still to be judged."""
        state = self._task.state
        if state.recovery is not None or state.cancelled_by:
            return False
        if state.retries != hearing.retries:
            return False
        if hearing.op:
            return state.step is not None and state.answer == hearing.op
        return state.step is None and state.status == "running"

    def _decided(self, hearing: Hearing, verdict: Verdict) -> None:
        task = self._task
        if not hearing.op:
            task.under_way.discard(JudgeTask(task.state.retries))
            if verdict.ok:
                task.judged, self.accepted = True, hearing.rulings
            else:
                self._repair("failed", verdict.why, hearing.rulings)
        elif verdict.ok:
            hit("task.accepted", hearing.step)
            task.forget_exchanges()
            task.append(
                StepEnded(
                    step=hearing.step,
                    status="completed",
                    reason="accepted",
                    result=canonical(parsed(hearing.text)),
                    evidence=(f"op{hearing.op}",),
                    op=hearing.op,
                    condition="satisfied",
                    judged=hearing.rulings,
                )
            )
            task.steps.node(hearing.step, "step_ended")
        else:
            self._refuse(hearing.op, verdict.why, hearing.rulings)

    def _refuse(self, op: int, why: str, judged: tuple[Ruling, ...] = ()) -> None:
        task = self._task
        step = task.state.step
        assert step is not None
        task.operations.exchanges.remember_answer(op)
        task.append(AnswerRefused(op=op, step=step.id, why=why, judged=judged))

    def _in_trouble(
        self, status: Trouble, why: str, judged: tuple[Ruling, ...] = ()
    ) -> None:
        """A judge raised or hung: that is no pass, and no refusal either (K48)."""
        task = self._task
        if task.state.step is None:
            task.under_way.discard(JudgeTask(task.state.retries))
            self._repair(status, why, judged)
            return
        again = tries_left(task.state, task.house.baseline) > 0
        task.steps.end(status, f"acceptance: {why}", again=again, judged=judged)

    def _repair(
        self, status: Literal["failed"] | Trouble, why: str, judged: tuple[Ruling, ...]
    ) -> None:
        """The whole task did not pass: its last step again, or pause (K28, B73)."""
        task = self._task
        if task.state.retries >= task.house.baseline.task_retries:
            reason = "acceptance" if status == "failed" else status
            task.parting.stop_for(StopFor(reason, why, "resume"))
            return
        last = output_step(task.state.plan, task.state.statuses())
        said = "the task was not accepted"
        if status != "failed":
            said = "the acceptance of the task went wrong"
        task.forget_exchanges()
        task.append(
            StepEnded(
                step=last,
                status=status,
                reason=f"{said}: {why}",
                result="",
                evidence=(),
                op=task.state.next_op - 1,
                again=True,
                deadline=task.steps.deadline(last),
                judged=judged,
            )
        )


def acceptance_of(agent: Agent, step: PlanStep) -> Accept | str:
    """What judges a step, or why it cannot be judged.

    The only step of a task without a plan is judged with the task, where that is. What
    a policy says is no model's word: it is code that saw how its calls ended.
    """
    found = accept_of(agent, step)
    if found is not None:
        return found
    free = agent.plan is None and step.by != "model"
    if agent.policy is not None or (free and agent.accept is not None):
        return TASK_JUDGES
    return NO_FAILED_CALLS


def _form(output: type[msgspec.Struct]) -> Check:
    """The first judge of a task with an output type: whether its JSON fits."""

    def fits(text: Any, view: View) -> Verdict:
        try:
            msgspec.json.decode(text, type=output)
        except msgspec.MsgspecError as error:
            why = f"the output is not a {output.__name__}: {error}"
            return Verdict(ok=False, why=why)
        return Verdict(ok=True)

    return Check(f"output({output.__name__})", fits)


def _call(judge: Any, hearing: Hearing, at: Path, view: View) -> Callable[[], Any]:
    """What the executor calls: all of it is code of the host, or about its values."""

    def call() -> Verdict:
        return verdict_of(judge(_result(hearing, at), view))

    async def call_async() -> Verdict:
        return verdict_of(await judge(_result(hearing, at), view))

    return call_async if is_async(judge) else call


def _result(hearing: Hearing, at: Path) -> Any:
    """A judge's own copy; where an output type was asked for, of that, once it fits."""
    if hearing.output is None:
        return parsed(hearing.text)
    if at == (0,):
        return hearing.text
    return msgspec.json.decode(hearing.text, type=hearing.output)


def _heard(outcome: Outcome) -> tuple[Verdict, Trouble | None]:
    """The verdict of a judge; or that there is none, with why."""
    if outcome.status != "completed":
        status: Trouble = "timed_out" if outcome.hung else "acceptance_error"
        return Verdict(ok=False, why=outcome.error), status
    verdict: Verdict = outcome.value
    return verdict, "timed_out" if isinstance(verdict, Hung) else None
