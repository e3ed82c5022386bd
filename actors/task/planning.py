"""The task's part for plans that a model writes: asked for, judged, put in force.

    trigger -> PlanChecked, DecisionMade -> calls -> judged -> PlanMade, PlanRevised
                                                            -> PlanKept
                                                            -> ConsentAsked
                                                            -> PlanRefused

A planning call is a model call like any other: it passes the check of its size, the
ledger and the budget (A81). A proposal that is refused is asked for again, with the
reason, as often as a declaration is; then a first plan pauses the task, and a revision
leaves the plan as it is, and counts (K49). All calls of one look share one deadline,
which a restart does not move (A82).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...supervision.faults import hit
from ..asking import QUESTION
from ..events import (
    ActionObserved,
    CallModel,
    ConsentAsked,
    DecisionMade,
    Event,
    Fired,
    PlanChecked,
    PlanKept,
    PlanMade,
    PlanRefused,
    PlanRevised,
)
from ..model import ModelReply, ModelRequest
from ..plan.planner import Planner
from ..plan.proposal import (
    FIXED,
    WHY,
    Accepted,
    Bounds,
    digest_of,
    goal_digest,
    judged,
    read,
)
from ..protocol import Replied
from .asked import about
from .planned import consent_about, is_planning
from .state import Op, TaskState

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["adopt", "ask_consent", "begin", "bounded", "observe", "overdue", "refuse"]

STARTS = Fired(trigger="start", why="the task starts")
BACKOFF = 1.0  # seconds before a failed model call is made again, doubled
DROP, KEEP = "drop", "keep"  # what a person may answer
SHOWN = 200  # characters of a step's goal in a question, and of the reason
SETTLED = (*FIXED, "pending", "skipped")  # statuses that a repeated plan leaves alone


def begin(task: Task) -> None:
    """Decide on a planning call: the first of a look at the plan, or one more."""
    state, planner = task.state, task.agent.planner
    planning = state.planning
    if planner is None:
        why = "the agent has no planner any more"
        task.append(PlanRefused(op=0, why=why, final=True))
        return
    late = planning.deadline is not None and task.house.now() >= planning.deadline
    if planning.asked and late:
        task.append(PlanRefused(op=0, why=_late(planner), final=True))
        return
    checked = [] if planning.deadline is not None else [_checked(task, planner)]
    fired = checked[0].fired if checked else planning.asked
    step = state.step
    task.append(
        *checked,
        DecisionMade(
            op=state.next_op,
            step=step.id if step else "",
            action=CallModel(purpose="plan"),
            why="; ".join(one.why for one in fired),
            learned=planning.why,
        ),
    )
    hit("task.decided", "model")


def _checked(task: Task, planner: Planner) -> PlanChecked:
    """A look at the plan, for what fired; or the open one, with its time anew."""
    state = task.state
    fired = state.planning.asked
    if not fired:
        due = state.planning.due
        chosen = tuple(one for one in due if one.trigger in planner.triggers)
        fired = chosen if state.plan else (STARTS,)
    return PlanChecked(
        fired=fired,
        deadline=task.house.now() + planner.timeout,
        max_steps=planner.max_steps,
        checks=tuple(planner.checks),
    )


def _late(planner: Planner) -> str:
    return f"planning took longer than {planner.timeout:g} s"


def overdue(task: Task, op: Op, at: float, why: str = "") -> bool:
    """Give a planning call up whose time is over by second `at`; True where it was.

    `why` is what it would wait for until then.
    """
    planner, deadline = task.agent.planner, task.state.planning.deadline
    if planner is None:
        refuse(task, op, "the agent has no planner any more")
        return True
    if deadline is None:  # the task was paused meanwhile: it has its time again
        checked = _checked(task, planner)
        task.append(checked)
        deadline = checked.deadline
    if at < deadline:
        return False
    refuse(task, op, f"{_late(planner)}: {why}" if why else _late(planner))
    return True


def bounded(task: Task, op: Op, request: ModelRequest) -> ModelRequest:
    """The request of a model call; one for a plan has no more time than is left."""
    deadline = task.state.planning.deadline
    if not is_planning(op) or deadline is None:
        return request
    left = max(deadline - task.house.now(), 0.001)
    return msgspec.structs.replace(request, timeout=min(request.timeout, left))


def observe(task: Task, op: Op, outcome: Replied, *, again: bool) -> None:
    """Take the answer; it is judged here, and only ever once.

    An attempt that a crash cut off is made again. A failed one of a first plan is, too,
    as one of the work would be; one of a revision counts (K49).
    """
    failed, first = outcome.status != "completed", not task.state.plan
    retry = failed and not again and first and _may_retry(task, op)
    observed = ActionObserved(
        op=op.op,
        attempt=op.attempt,
        status=outcome.status,
        again=failed and (again or retry),
        retry=retry,
        reason=outcome.error,
    )
    if observed.again:
        task.append(observed, *task.slots.asked(op, outcome))
    else:
        task.append(observed, _verdict(task, op, outcome))
    hit("task.observed", "model")


def _may_retry(task: Task, op: Op) -> bool:
    """Whether a failed call may be made again, and its pause ends in time."""
    deadline = task.state.planning.deadline
    begins = task.house.now() + BACKOFF * 2**op.tries
    in_time = deadline is None or begins < deadline
    return in_time and op.tries < task.house.baseline.model_retries


def refuse(task: Task, op: Op, why: str) -> None:
    """The call is not made: no time or money is left for it, or no request fits."""
    failed = ActionObserved(op=op.op, attempt=op.attempt, status="failed", reason=why)
    task.append(failed, PlanRefused(op=op.op, why=why, final=True))


def ask_consent(task: Task) -> None:
    """Ask the people in charge whether required steps may be dropped."""
    asked = task.state.planning.consent
    assert asked is not None
    goals = {step.id: step.goal for step in task.state.plan}
    lines = [
        f"- {one.id} ({goals[one.id][:SHOWN]}), since: {one.why[:SHOWN]}"
        for one in asked.dropped
        if one.required
    ]
    text = "May the plan do without what the task requires?\n" + "\n".join(lines)
    task.questions.ask(text[:QUESTION], (DROP, KEEP), what=consent_about(asked.op))


def adopt(task: Task) -> None:
    """Put the revision in force that a person has agreed to; or leave the plan."""
    state = task.state
    asked = state.planning.consent
    assert asked is not None
    answer = about(state, consent_about(asked.op))
    assert answer is not None
    if answer.answer == DROP:
        made = Accepted(steps=asked.steps, dropped=asked.dropped, why=asked.why)
        task.append(_revised(state, asked.op, made, answer.by))
        return
    named = ", ".join(one.id for one in asked.dropped if one.required)
    why = f"{answer.by} said that this is not to be dropped: {named}"
    task.append(PlanRefused(op=asked.op, why=why, final=True))


def _verdict(task: Task, op: Op, outcome: Replied) -> Event:
    """What becomes of an answer: a plan, the old one, a question, or a refusal."""
    state = task.state
    if outcome.status != "completed":
        why = f"the model call failed: {outcome.error}"
        return PlanRefused(op=op.op, why=why, final=True)
    reply = msgspec.json.decode(outcome.result, type=ModelReply)
    made = _made(task, reply.content or "")
    match made:
        case str():
            final = state.planning.refused >= task.house.baseline.declaration_retries
            return PlanRefused(op=op.op, why=made[:WHY], final=final)
        case PlanKept():
            return msgspec.structs.replace(made, op=op.op)
    if not state.plan:
        return PlanMade(
            op=op.op,
            number=state.planning.number + 1,
            steps=made.steps,
            digest=digest_of(made.steps),
            goal=goal_digest(state.task.goal),
            why=made.why,
        )
    if made.needs_consent:
        return ConsentAsked(
            op=op.op, steps=made.steps, dropped=made.dropped, why=made.why
        )
    return _revised(state, op.op, made)


def _made(task: Task, text: str) -> Accepted | PlanKept | str:
    state, planning = task.state, task.state.planning
    said = read(text)
    if isinstance(said, str):
        return said
    if said.keep and (said.steps or said.drop):
        return "it says keep, and names steps as well: say one of them"
    if said.keep and not state.plan:
        return "it says keep, and there is no plan yet"
    if said.keep:
        return PlanKept(op=0, why=said.why[:WHY])
    rules = task.house.baseline
    status = state.shown_statuses()
    made = judged(
        said,
        goal=state.task.goal,
        plan=state.plan,
        status=status,
        bounds=Bounds(
            max_steps=planning.max_steps,
            checks=planning.checks,
            iterations=rules.step_iterations,
            characters=task.agent.request_limit or rules.request_limit,
        ),
    )
    if isinstance(made, str) or made.steps != state.plan:
        return made
    if all(one in SETTLED for one in status.values()):
        return PlanKept(op=0, why=made.why)
    return made


def _revised(
    state: TaskState, op: int, made: Accepted, consent: str = ""
) -> PlanRevised:
    return PlanRevised(
        op=op,
        number=state.planning.number + 1,
        fired=state.planning.asked,
        steps=made.steps,
        digest=digest_of(made.steps),
        before=digest_of(state.plan),
        goal=goal_digest(state.task.goal),
        why=made.why,
        dropped=made.dropped,
        consent=consent,
    )
