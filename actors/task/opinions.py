"""What a model says of an answer, where acceptance asks one. Pure.

    Judge -> DecisionMade -> a model call like any other -> AnswerJudged

What could be read stands, over crashes too; what could not is asked again, three times
in all. An answer's opinions go with it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..acceptance import ModelJudge, Verdict
from ..context.judging import Question
from ..context.render import TaskView
from ..events import AnswerJudged, CallModel, DecisionMade
from ..model import ModelReply
from .parts import Op
from .state import TaskState
from .values import json_part, output_of, parsed

__all__ = ["TRIES", "asks", "is_opinion", "opinion_of", "question_of", "read_opinion"]

TRIES = 3  # questions in all, while no answer can be read
WHY = 500  # characters of a reason


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The form that a model is asked for."""

    verdict: Literal["pass", "fail"]
    why: str


def is_opinion(op: Op) -> bool:
    """Whether an operation asks a model to judge."""
    return isinstance(op.action, CallModel) and op.action.purpose == "judge"


def asks(state: TaskState, judge: ModelJudge, answer: int) -> DecisionMade:
    """The decision to have a model judge; `answer` 0 is the whole task."""
    step = state.step.id if answer and state.step is not None else ""
    what = f"the answer op{answer}" if answer else "the output of the task"
    return DecisionMade(
        op=state.next_op,
        step=step,
        action=CallModel(purpose="judge", judges=answer, criterion=judge.criterion),
        why=f"a model judges {what}",
        learned="",
    )


def opinion_of(
    state: TaskState, judge: ModelJudge, answer: int
) -> tuple[Verdict | None, int, str]:
    """The verdict of a model, if there is one; else how often it was asked, and why."""
    found = [
        one
        for one in state.opinions
        if one.judges == answer and one.criterion == judge.criterion
    ]
    if not found:
        return None, 0, ""
    last = found[-1]
    if not last.verdict:
        return None, len(found), last.why
    why = "" if last.verdict == "pass" else f"judged by a model: {last.why}"
    evidence = {"says": last.why, "operation": f"op{last.op}"}
    verdict = Verdict(ok=last.verdict == "pass", why=why, evidence=evidence)
    return verdict, len(found), ""


def question_of(
    state: TaskState, view: TaskView, action: CallModel, text: str
) -> Question:
    """What is asked, from the task's view; `text` is the answer that is judged.

    Facts are what acceptance passed, and what tools put in view; no words of the model.
    """
    if not action.judges:
        text = output_of(state)
    step = None
    if action.judges:
        step = {
            name: getattr(one, name)
            for one in view.steps
            if one.id == view.current
            for name in ("id", "goal", "done")
        }
    return Question(
        goal=view.goal,
        constraints=view.constraints,
        inputs=view.inputs,
        criterion=action.criterion,
        result=parsed(text.strip()),
        step=step,
        facts={one.name: msgspec.json.decode(one.value) for one in view.facts},
        again=any(
            not one.verdict
            for one in state.opinions
            if (one.judges, one.criterion) == (action.judges, action.criterion)
        ),
    )


def read_opinion(op: Op, reply: ModelReply) -> AnswerJudged:
    """What a reply says; a verdict only where it has the form that was asked for."""
    assert isinstance(op.action, CallModel)
    verdict: Any = ""
    if reply.tool_calls:
        why = "it calls tools"
    else:
        try:
            said = msgspec.json.decode(json_part(reply.content or ""), type=Said)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            why = f"it is not of the form asked for: {error}"
        else:
            verdict, why = said.verdict, said.why
    return AnswerJudged(
        op=op.op,
        judges=op.action.judges,
        criterion=op.action.criterion,
        verdict=verdict,
        why=why[:WHY],
    )
