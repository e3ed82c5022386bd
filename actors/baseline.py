"""Every default of the runtime in one value, stamped with an id on every task."""

from __future__ import annotations

from typing import Literal

import msgspec

from .context.drift import ACTS_KEPT
from .errors import Misuse
from .guard.detect import LONGEST
from .guard.tried import TIMES_KEPT
from .storable import is_storable

__all__ = ["Baseline"]

AT_LEAST_ONE = frozenset(
    {
        "active_tasks",
        "loop_errors",
        "loop_near",
        "loop_period",
        "loop_repeats",
        "big_value",
        "closing_tokens",
        "output_tokens",
        "probe_attempts",
        "recovery_permits",
        "request_limit",
        "rounds_without_plan",
        "snapshot_events",
        "step_iterations",
        "tool_threads",
    }
)

AT_MOST = {
    "alert": 1,
    "core_share": 1,
    "drift_actions": ACTS_KEPT,
    "drift_threshold": 1,
    "failed_attempts": TIMES_KEPT,
    "floor": 1,
    "loop_period": LONGEST,
    "loop_similar": 1,
    "low_water": 1,
}


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that a run follows; `id` names them in every task (B5).

    Characters measure requests, tokens and calls measure money, seconds measure
    time. A host changes a rule with ``Baseline(id="mine", active_tasks=2)``.

    `newest` says what becomes of the newest exchange where it alone is over the limit:
    its results are shown by ``reference``, or the request is refused (``strict``), and
    the task pauses.

    The newest 15 calls are looked at for circles: a `loop_…` above that is never met.

    Raises Misuse, naming the rule and the value, for what is no number or too small.
    """

    id: str = "23.3"
    request_limit: int = 16_000  # characters of canonical JSON (A63)
    low_water: float = 0.7  # share of the limit that a cut goes down to
    core_share: float = 0.25  # of the limit that core facts may take (A101)
    snapshot_events: int = 64
    step_iterations: int = 5  # B47
    rounds_without_plan: int = 50
    task_retries: int = 3  # runs after the first (B47)
    model_retries: int = 5  # B82, kind "generate", tools of it included
    query_retries: int = 3  # B82, tools of kind "query"
    downstream_retries: int = 1  # B82, tools of kind "downstream"
    failed_attempts: int = 2  # A107; a further one is refused, 0 refuses none
    declaration_retries: int = 3
    probe_attempts: int = 5
    loop_repeats: int = 3  # equal calls with equal results in a row
    loop_period: int = 5  # calls of the longest circle, seen three times
    loop_errors: int = 4  # different calls in a row that failed, after their retries
    loop_near: int = 4  # nearly equal calls that failed alike or changed nothing
    loop_similar: float = 0.9  # from which two calls are nearly equal (B56)
    floor: float = 0.10  # share of a grant kept for winding up (B78)
    closing_tokens: int = 256  # output of the last call before a pause for money
    summary_failures: int = 2  # in a row, then a task asks for no summary (K15)
    alert: float = 0.20  # share left at which an alert goes out (B81)
    tool_timeout: float = 60.0  # seconds
    model_timeout: float = 120.0  # seconds
    probe_timeout: float = 10.0  # seconds
    acceptance_timeout: float = 30.0  # seconds
    policy_timeout: float = 30.0  # seconds a decision of an agent's own policy
    policy_retries: int = 3  # after it gave no decision
    output_tokens: int = 2_048  # what one model call may answer at most
    active_tasks: int = 8
    subtask_depth: int = 3  # sub-tasks of sub-tasks
    subtask_width: int = 8  # sub-tasks of one task that are open at once
    subtask_total: int = 64  # sub-tasks that one task begins in all
    recovery_permits: int = 4
    tool_threads: int = 32
    park_without_progress: int = 5  # recoveries
    park_within_hour: int = 20  # recoveries
    backoff_first: float = 1.0  # seconds
    backoff_limit: float = 60.0  # seconds
    drift_threshold: float = 0.8  # B15; above it the goal is shown again
    drift_actions: int = 6  # the newest that are judged; 0 judges none
    anchor_names: int = 64  # that a task keeps in view at most
    anchor_characters: int = 4_000  # of them; they stand in every request, whole
    shutdown_timeout: float = 5.0  # seconds a child
    big_value: int = 16_384  # bytes
    newest: Literal["reference", "strict"] = "reference"  # where it alone is too much

    def retries_of(self, kind: Literal["query", "generate", "downstream"]) -> int:
        """How often a failed call of a kind, or a step of it, is made again (B82)."""
        return {
            "query": self.query_retries,
            "generate": self.model_retries,
            "downstream": self.downstream_retries,
        }[kind]

    def __post_init__(self) -> None:
        if self.newest not in ("reference", "strict"):
            raise Misuse(
                f"Baseline: newest={self.newest!r} must be 'reference' or 'strict'"
            )
        if not isinstance(self.id, str) or not self.id or not is_storable(self.id):
            raise Misuse(
                f"Baseline: id={self.id!r} must be text, the name of the rules"
            )
        for name, kind in self.__annotations__.items():
            value = getattr(self, name)
            if name in ("id", "newest"):
                continue
            least = 1 if name in AT_LEAST_ONE else 0
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not least <= value < float("inf"):
                raise Misuse(
                    f"Baseline: {name}={value!r} must be a number of at least {least}"
                )
            if kind == "int" and not isinstance(value, int):
                raise Misuse(f"Baseline: {name}={value!r} must be a whole number")
        for name, most in AT_MOST.items():
            if getattr(self, name) > most:
                raise Misuse(
                    f"Baseline: {name}={getattr(self, name)!r} must be at most {most}"
                )
