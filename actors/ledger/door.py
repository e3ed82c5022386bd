"""What passes the door, and how: registered and flushed first, or not let out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...supervision.faults import hit
from ..context.measure import canonical
from ..events import EffectRecorded, EffectRegistered
from ..executor.executor import Outcome, Work
from ..protocol import Perform
from ..rules import refusal
from ..speech import Speech
from ..tool import Tool, ToolContext
from .entry import (
    Earlier,
    approval_id,
    caller_key,
    earlier_of,
    effect_key,
    failed,
    failures,
    find_same,
)
from .giving import give
from .work import model_work, tool_work

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["Door", "Ended"]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The executor's word: the worker of an attempt has an outcome."""

    op: int
    attempt: int
    outcome: Outcome


class Door:
    """The ledger's part for calls: what is new is registered, what is not is answered.

    A worker starts only once its registration is flushed (B39).
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def call_model(self, wanted: Perform) -> None:
        """Register a model call and run it."""
        ledger = self._ledger
        request = wanted.request
        assert request is not None
        not_after = self._not_after(wanted, request.timeout)
        key = effect_key(ledger.task, wanted.step, "model", "", wanted.op)
        registered = self.registration(wanted, "read", key, not_after)
        house, attempt = ledger.house, wanted.attempt
        work = model_work(
            ledger.agent,
            request,
            Speech(ledger.task, wanted.op, attempt, house.now, house.heard),
            key=ledger.work_key(wanted.op, wanted.attempt),
            not_after=not_after,
            until=wanted.until,
            forbidden=self._forbidden(wanted),
            deliver=self._deliver(wanted.op, wanted.attempt),
        )
        self._register_and_run(registered, work)

    def call_tool(self, wanted: Perform) -> None:
        """Register a tool call and run it; or refuse it, or answer from the record."""
        ledger = self._ledger
        tool = ledger.agent.tool_of(wanted.name, undo=wanted.undoes is not None)
        if wanted.limited:
            self.refuse(wanted, wanted.limited)
            return
        if tool is None:
            known = ", ".join(sorted(ledger.agent.tools)) or "none"
            self.refuse(wanted, f"there is no tool {wanted.name!r}; tools: {known}")
            return
        try:
            values = tool.parse(wanted.arguments)
            arguments = canonical(msgspec.to_builtins(values))
            forbidden = self._by_rule(wanted, tool, values, arguments)
        except (ValueError, TypeError, RecursionError) as error:
            self.refuse(wanted, str(error))
            return
        if forbidden:
            self.refuse(wanted, forbidden)
            return
        if wanted.rejected:
            self.refuse(wanted, wanted.rejected, by="person")
            return
        if not self._approved(tool, wanted):
            self.refuse(wanted, "nobody approved this call with these arguments")
            return
        if wanted.given is None and (gone := self._gone(wanted)):
            self.refuse(wanted, gone, by="recovery")  # so the task asks anew
            return
        if tool.delegates or tool.asks:
            assert wanted.given is not None
            give(ledger, wanted, tool, arguments, wanted.given)
            return
        if tool.key is not None:
            ledger.keys.find(wanted, tool, values, arguments)
            return
        occurrence = wanted.occurrence if tool.repeat else 0
        if tool.effect == "read":
            occurrence = wanted.op
        key = effect_key(ledger.task, wanted.step, tool.name, arguments, occurrence)
        same = None
        if ledger.known.may_hold(key):
            same = find_same(ledger.state, key, wanted.op)
        before = ledger.reopened.find(key, wanted.op)
        earlier = before if same is None else earlier_of(same)
        made = same is not None or (before is not None and before.status != "failed")
        if not made and ledger.left.find(wanted, tool, values, arguments, key):
            return
        self.unless_made(wanted, tool, values, arguments, key, earlier)

    def named(
        self,
        wanted: Perform,
        tool: Tool,
        values: dict[str, Any],
        arguments: str,
        name: str,
        earlier: Earlier | None,
    ) -> None:
        """Go on with a call whose effect its caller named."""
        key = caller_key(self._ledger.task, tool.name, name)
        self.unless_made(wanted, tool, values, arguments, key, earlier, name)

    def unless_made(
        self,
        wanted: Perform,
        tool: Tool,
        values: dict[str, Any],
        arguments: str,
        key: str,
        earlier: Earlier | None,
        name: str = "",
    ) -> None:
        """Answer from the record of the same effect, refuse the call, or make it."""
        if earlier is not None and earlier.status == "completed":
            self._reuse(wanted, tool, earlier, key)
        elif earlier is not None and earlier.status != "failed":
            state = "is running"
            if earlier.status == "unknown":
                state = "may have run and is being checked"
            self.refuse(
                wanted,
                f"the same call (operation {earlier.op}) {state}; it is not made twice",
            )
        elif used_up := self._used_up(wanted, tool, arguments):
            self.refuse(wanted, used_up)
        else:
            self._make(wanted, tool, values, arguments, key, name)

    def _used_up(self, wanted: Perform, tool: Tool, arguments: str) -> str:
        """Why a call that failed before is not made again, or nothing (B82, A107).

        A step has the retries of the tool's kind. Where the same call used them up in
        an earlier step and never went well since, a later one has one attempt.
        """
        ledger = self._ledger
        if tool.repeat or not ledger.known.may_have_failed(ledger.state):
            return ""
        limit = ledger.house.baseline.retries_of(tool.kind)
        here = failures(ledger.state, wanted.step, tool.name, arguments, wanted.since)
        overall = failed(ledger.state, tool.name, arguments, wanted.since)
        if here <= limit and not (here and overall > limit):
            return ""
        where = "step" if here > limit else "task"
        return (
            f"this call failed {max(here, overall)} times in this {where} and is not "
            f"made again ({tool.kind}: {limit} retries); change it, or do without"
        )

    def _make(
        self,
        wanted: Perform,
        tool: Tool,
        values: dict[str, Any],
        arguments: str,
        key: str,
        name: str,
    ) -> None:
        ledger = self._ledger
        timeout = tool.timeout or ledger.house.baseline.tool_timeout
        not_after = self._not_after(wanted, timeout)
        registered = self.registration(
            wanted, tool.effect, key, not_after, arguments=arguments, named=name
        )
        if tool.inside:
            ledger.inside.ask(registered, values)
            return
        context = ToolContext(
            request_id=registered.request_id,
            deadline=not_after,
            fence=f"{ledger.task}:{ledger.epoch}:{wanted.op}",
            log=self._tool_log(wanted),
            anchors={},
        )
        work = tool_work(
            tool,
            values,
            context,
            arguments=arguments,
            key=ledger.work_key(wanted.op, wanted.attempt),
            timeout=timeout,
            until=wanted.until,
            forbidden=self._forbidden(wanted),
            deliver=self._deliver(wanted.op, wanted.attempt),
        )
        if tool.effect == "once" and wanted.checkpoint != "log":
            ledger.snapshot_before("a once effect is next")
        self._register_and_run(registered, work)

    def registration(
        self,
        wanted: Perform,
        effect: Any,
        key: str,
        not_after: float,
        *,
        arguments: str = "",
        reused: int | None = None,
        named: str = "",
    ) -> EffectRegistered:
        """The event that an attempt is begun."""
        tool = self._ledger.agent.tool_of(wanted.name, undo=wanted.undoes is not None)
        return EffectRegistered(
            op=wanted.op,
            attempt=wanted.attempt,
            step=wanted.step,
            kind=wanted.kind,
            name=wanted.name,
            effect=effect,
            key=key,
            arguments=arguments,
            not_after=not_after,
            call_id=wanted.call_id,
            parent=wanted.parent,
            reused=reused,
            approval=wanted.approval,
            edited=wanted.edited,
            named=named,
            model=self._ledger.agent.model.name if wanted.kind == "model" else "",
            undoes=wanted.undoes,
            holds=wanted.holds,
            counts_as="" if tool is None or effect == "read" else tool.counts_as or "",
        )

    def _by_rule(
        self, wanted: Perform, tool: Tool, values: dict[str, Any], arguments: str
    ) -> str:
        """Why a rule forbids a call that has not begun; nobody's approval lifts it.

        What takes an effect back is never refused: the effect would stay.
        """
        begun = self._ledger.state.entries.get(wanted.op)
        passed = begun is not None and (begun.name, begun.arguments) == (
            wanted.name,
            arguments,
        )
        if wanted.undoes is not None or wanted.given is not None or passed:
            return ""
        return refusal(wanted.rules, tool, values)

    def _approved(self, tool: Tool, wanted: Perform) -> bool:
        """Whether an approval is of this very call, or none is needed.

        Where a function decides that, it has: the task cites no approval then.
        """
        if not wanted.approval:
            return tool.approval is not True
        this = approval_id(
            self._ledger.task,
            wanted.op,
            wanted.name,
            wanted.arguments,
            wanted.earlier,
        )
        return wanted.approval == this

    def _gone(self, wanted: Perform) -> str:
        """Why the approval that is cited is of no use any more; asked on any thread."""
        house = self._ledger.house
        if not wanted.approval:
            return ""
        if wanted.expires is not None and house.now() >= wanted.expires:
            return "its approval expired before it was started"
        if house.withdrawn.holds(self._ledger.task, wanted.approval):
            return "its approval was taken back before it was started"
        return ""

    def _not_after(self, wanted: Perform, timeout: float) -> float:
        """When an attempt that is made now is over: never after its task's deadline."""
        over = self._ledger.house.now() + timeout
        return over if wanted.until is None else min(over, wanted.until)

    def _forbidden(self, wanted: Perform) -> Callable[[], str]:
        """What the executor asks once more as it takes the operation."""
        ledger = self._ledger
        start_by = wanted.start_by

        def forbidden() -> str:
            if start_by is not None and ledger.house.now() > start_by:
                return "its slot was over before it started"
            return self._gone(wanted) if ledger.owns() else "the task has another owner"

        return forbidden

    def _register_and_run(self, registered: EffectRegistered, work: Work) -> None:
        ledger = self._ledger
        seq = ledger.append(registered)
        executor = ledger.house.executor

        def flushed() -> None:
            hit("effect.registered", work.name)
            executor.run(work)

        ledger.when_durable(seq, flushed)

    def refuse(
        self,
        wanted: Perform,
        error: str,
        by: Literal["door", "person", "recovery"] = "door",
    ) -> None:
        """Record a call that the door does not let out; it costs nothing."""
        ledger = self._ledger
        key = effect_key(ledger.task, wanted.step, wanted.name, "refused", wanted.op)
        ledger.append(
            self.registration(
                wanted,
                "read",
                key,
                ledger.house.now(),
                arguments=wanted.arguments,
            ),
            EffectRecorded(
                op=wanted.op,
                attempt=wanted.attempt,
                status="failed",
                by=by,
                error=error,
            ),
        )
        ledger.decide(ledger.state.entries[wanted.op])

    def _reuse(self, wanted: Perform, tool: Tool, same: Earlier, key: str) -> None:
        """Answer from the record of the same effect, and mark it so (B37)."""
        ledger = self._ledger
        ledger.append(
            self.registration(
                wanted,
                tool.effect,
                key,
                ledger.house.now(),
                arguments=same.arguments,
                reused=same.op,
            ),
            EffectRecorded(
                op=wanted.op,
                attempt=wanted.attempt,
                status="completed",
                by="record",
                result=same.result,
                blob=same.blob,
                anchors=same.anchors,
            ),
        )
        ledger.decide(ledger.state.entries[wanted.op])

    def _deliver(self, op: int, attempt: int) -> Any:
        address = self._ledger.address

        def deliver(outcome: Outcome) -> None:
            address.tell(Ended(op=op, attempt=attempt, outcome=outcome))

        return deliver

    def _tool_log(self, wanted: Perform) -> Any:
        ledger = self._ledger

        def log(message: str, **fields: Any) -> None:
            ledger.house.system.log(
                "tool.log",
                task=ledger.task,
                op=wanted.op,
                tool=wanted.name,
                message=message,
                fields=fields,
            )

        return log
