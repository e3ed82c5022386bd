"""A plan as its host writes it: steps, their order, and what each is judged by."""

from __future__ import annotations

import msgspec

from ..acceptance import Accept, check_accept
from ..errors import Misuse
from ..events import Checkpoint, Kind
from ..naming import NAME
from ..storable import is_storable
from .graph import wrong_needs

__all__ = ["WHOLE", "Plan", "Step"]

WHOLE = "task"  # id of the one step of a task without a plan

PHASE = 64  # characters of a phase's name


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a plan that the host wrote.

    Args:
        id: a short name, unique in the plan; the step's result becomes the
            confirmed fact of that name.
        goal: what is to be done, in words for the model.
        done: the completion criterion, in words for the model.
        accept: judges the result, see `perdure.accept`: a function of result and
            `View`, sync or async. True or an ok `Verdict` accepts, False, a text (why
            not) or another `Verdict` refuses; what raises is `acceptance_error`, what
            hangs `timed_out`. Runs off the dispatcher, 30 s at most. Without one, an
            answer right after calls that failed is refused.
        max_iterations: model replies this step may take; None takes the
            baseline's 5.
        timeout: seconds from its start, time without a process included; None for
            no limit.
        needs: ids of the steps that must have passed acceptance before it begins;
            None is the one before it in the plan, () is none.
        required: whether the task needs it. One that is not, and is stuck after its
            tries, is passed over together with what depends on it.
        phase: name of the part of the plan that it belongs to, at most 64 characters.
        kind: how often the step as a whole is tried again: ``query`` 3, ``generate`` 5,
            ``downstream`` 1 by the baseline (B82), and never more often than the task
            as a whole; None takes the task's.
        max_calls: tool calls that all its tries together may make; None for no limit
            but the budget's.
        checkpoint: when its state is kept: after ``every`` observation, at the
            ``nodes`` (it ends, a big result, before an effect that cannot be
            repeated), or as often as the ``log`` asks for, every 64 events (B84).
    """

    id: str
    goal: str
    done: str = ""
    accept: Accept | None = None
    max_iterations: int | None = None
    timeout: float | None = None
    needs: tuple[str, ...] | None = None
    required: bool = True
    phase: str = ""
    kind: Kind | None = None
    max_calls: int | None = None
    checkpoint: Checkpoint = "nodes"

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not NAME.fullmatch(self.id):
            raise Misuse(f"step id {self.id!r}: use 1-64 letters, digits, . _ or -")
        if not isinstance(self.goal, str) or not self.goal.strip():
            raise Misuse(f"step {self.id!r}: goal is empty; say what is to be done")
        if self.accept is not None:
            check_accept(self.accept, f"step {self.id!r}: accept")
        for name in ("max_iterations", "max_calls"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise Misuse(
                    f"step {self.id!r}: {name}={value!r} must be a whole number of at "
                    "least 1"
                )
        if self.timeout is not None and not _is_above_zero(self.timeout):
            raise Misuse(
                f"step {self.id!r}: timeout={self.timeout!r} must be above 0 seconds"
            )
        if self.needs is not None and not _are_ids(self.needs):
            raise Misuse(
                f"step {self.id!r}: needs={self.needs!r} must be a tuple of step ids, "
                "as in needs=('one',)"
            )
        self._check_choices()

    def _check_choices(self) -> None:
        if not isinstance(self.required, bool):
            raise Misuse(
                f"step {self.id!r}: required={self.required!r} must be True or False"
            )
        phase = self.phase
        if not isinstance(phase, str) or len(phase) > PHASE or not is_storable(phase):
            raise Misuse(
                f"step {self.id!r}: phase={phase!r} must be text of at most {PHASE} "
                "characters"
            )
        for name, given in (
            ("kind", ("query", "generate", "downstream", None)),
            ("checkpoint", ("every", "nodes", "log")),
        ):
            value = getattr(self, name)
            if value not in given:
                known = ", ".join(map(repr, given))
                raise Misuse(f"step {self.id!r}: {name}={value!r} is none of {known}")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps, each of which starts only after those that it needs passed acceptance."""

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise Misuse("a plan without steps: give at least one Step, or no plan")
        seen: set[str] = set()
        for step in self.steps:
            if step.id in seen:
                raise Misuse(f"two steps are called {step.id!r}: ids must be unique")
            seen.add(step.id)
        if wrong := wrong_needs({one.id: self.needs(one) for one in self.steps}):
            raise Misuse(wrong)

    def needs(self, step: Step) -> tuple[str, ...]:
        """Ids of the steps that `step` waits for: by default the one before it."""
        if step.needs is not None:
            return step.needs
        place = self.steps.index(step)
        return (self.steps[place - 1].id,) if place else ()


def _are_ids(needs: object) -> bool:
    return isinstance(needs, tuple) and all(isinstance(one, str) for one in needs)


def _is_above_zero(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value > 0  # type: ignore[operator]  # a number
