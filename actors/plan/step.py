"""A plan as its host writes it: steps, their order, and what each is judged by."""

from __future__ import annotations

import msgspec

from ..acceptance import Accept
from ..errors import Misuse
from ..naming import NAME

__all__ = ["Plan", "Step"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a plan that the host wrote.

    Args:
        id: a short name, unique in the plan; the step's result becomes the
            confirmed fact of that name.
        goal: what is to be done, in words for the model.
        done: the completion criterion, in words for the model.
        accept: judges the result; True accepts, False or a text (why not) refuses,
            an exception is never a pass. Runs off the dispatcher with a deadline.
        max_iterations: model replies this step may take; None takes the
            baseline's 5.
        timeout: seconds from its start, time without a process included; None for
            no limit.
        needs: ids of the steps that must have passed acceptance before it begins;
            None is the one before it in the plan, () is none.
    """

    id: str
    goal: str
    done: str = ""
    accept: Accept | None = None
    max_iterations: int | None = None
    timeout: float | None = None
    needs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.id):
            raise Misuse(f"step id {self.id!r}: use 1-64 letters, digits, . _ or -")
        if not self.goal.strip():
            raise Misuse(f"step {self.id!r}: goal is empty; say what is to be done")
        if self.max_iterations is not None and (
            type(self.max_iterations) is not int or self.max_iterations < 1
        ):
            raise Misuse(
                f"step {self.id!r}: max_iterations={self.max_iterations!r} must be a "
                "whole number of at least 1"
            )
        if self.timeout is not None and not self.timeout > 0:
            raise Misuse(
                f"step {self.id!r}: timeout={self.timeout!r} must be above 0 seconds"
            )


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

    def needs(self, step: Step) -> tuple[str, ...]:
        """Ids of the steps that `step` waits for: by default the one before it."""
        if step.needs is not None:
            return step.needs
        place = self.steps.index(step)
        return (self.steps[place - 1].id,) if place else ()
