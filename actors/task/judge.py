"""The task's part for acceptance: the host's functions, run off the dispatcher."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from ...supervision.faults import hit
from ..acceptance import Accept, View
from ..context.measure import canonical
from ..events import AnswerRefused, StepEnded
from ..executor.executor import Outcome, Work
from ..plan.accepting import accept_of
from ..plan.standing import output_step
from .commands import Judge, JudgeTask, StopFor
from .tries import tries_left
from .values import output_of, parsed

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Judged", "Judging"]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """An acceptance function ended; `op` 0 is the whole task."""

    op: int
    text: str
    outcome: Outcome


class Judging:
    """Nothing is complete without acceptance; raising or hanging is never a pass."""

    def __init__(self, task: Task) -> None:
        self._task = task

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
        accept = accept_of(task.agent, planned)
        if isinstance(accept, str):
            self._stopped("acceptance_error", accept)
            return
        self._run(op, step.id, text, accept)

    def judge_task(self) -> None:
        """Have the output of the task judged: its form, then its content."""
        task = self._task
        text = output_of(task.state)
        output = task.agent.output
        accept = task.agent.accept

        def whole(result: Any, view: Any) -> bool | str:
            if output is not None:
                try:
                    result = msgspec.json.decode(text, type=output)
                except msgspec.MsgspecError as error:
                    return f"the output is not a {output.__name__}: {error}"
            return True if accept is None else accept(result, view)

        self._run(0, "", text, whole)

    def _run(self, op: int, step: str, text: str, accept: Accept | None) -> None:
        task = self._task
        rules = task.house.baseline
        facts = {
            one.id: parsed(one.result)
            for one in task.state.steps
            if one.status == "completed"
        }
        view = View(
            task=task.id,
            step=step,
            goal=task.state.task.goal,
            inputs=copy.deepcopy(task.state.task.inputs),  # it is the caller's to harm
            facts=facts,
        )
        address = task.address

        def deliver(outcome: Outcome) -> None:
            address.tell(Judged(op=op, text=text, outcome=outcome))

        number = f"{step}/{op}" if op else f"task/{task.state.version}"
        work = Work(
            key=(task.id, f"accept {number}"),
            name="accept",
            effect="read",
            call=lambda: True if accept is None else accept(parsed(text), view),
            timeout=rules.acceptance_timeout,
            not_after=task.house.now() + rules.acceptance_timeout,
            until=task.state.task.deadline,
            deliver=deliver,
        )
        executor = task.house.executor
        task.when_durable(task.last_seq, lambda: executor.run(work))

    def judged(self, message: Judged) -> None:
        """Record the verdict; one asked for before a crash is asked for again."""
        task = self._task
        outcome = message.outcome
        # The runtime is closing: judged after the next start. Or nobody has looked at
        # the answer yet, since the clock was set or no thread was free: asked again.
        if outcome.refused or outcome.late:
            task.under_way.discard(Judge(message.op))
            task.under_way.discard(JudgeTask(task.state.retries))
            return
        if outcome.status == "unknown" and not task.time_left():
            return  # cut off by the task's deadline, which is why the task stops
        if task.state.recovery is not None:
            return
        if message.op == 0:
            self._task_judged(message)
            return
        step = task.state.step
        if step is None or task.state.answer != message.op:
            return
        if outcome.status == "unknown" and not outcome.error.startswith("Timeout"):
            self._stopped("timed_out", outcome.error)
        elif outcome.status != "completed":
            self._stopped("acceptance_error", outcome.error)
        elif outcome.value is True:
            hit("task.accepted", step.id)
            task.forget_exchanges()
            task.append(
                StepEnded(
                    step=step.id,
                    status="completed",
                    reason="accepted",
                    result=canonical(parsed(message.text)),
                    evidence=(f"op{message.op}",),
                    op=message.op,
                    condition="satisfied",
                )
            )
            task.steps.node(step.id, "step_ended")
        else:
            self._refuse(message.op, said(outcome.value))

    def _refuse(self, op: int, why: str) -> None:
        task = self._task
        step = task.state.step
        assert step is not None
        task.operations.exchanges.remember_answer(op)
        task.append(AnswerRefused(op=op, step=step.id, why=why))

    def _stopped(self, status: Any, reason: str) -> None:
        task = self._task
        again = tries_left(task.state, task.house.baseline) > 0
        task.steps.end(status, f"acceptance: {reason}", again=again)

    def _task_judged(self, message: Judged) -> None:
        task = self._task
        if task.state.step is not None or task.state.status != "running":
            return
        outcome = message.outcome
        task.under_way.discard(JudgeTask(task.state.retries))
        if outcome.status == "completed" and outcome.value is True:
            task.judged = True
            return
        why = said(outcome.value) if outcome.status == "completed" else outcome.error
        if task.state.retries >= task.house.baseline.task_retries:
            task.parting.stop_for(StopFor("acceptance", why, "resume"))
            return
        last = output_step(task.state.plan, task.state.statuses())
        task.forget_exchanges()
        task.append(
            StepEnded(
                step=last,
                status="failed",
                reason=f"the task was not accepted: {why}",
                result="",
                evidence=(),
                op=task.state.next_op - 1,
                again=True,
                deadline=task.steps.deadline(last),
            )
        )


def said(verdict: Any) -> str:
    """Why acceptance refused, as text for the model."""
    if isinstance(verdict, str) and verdict:
        return verdict[:1_000]
    if verdict is False:
        return "acceptance refused it without a reason"
    return f"acceptance answered {type(verdict).__name__}, not True"
