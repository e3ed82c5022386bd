"""Deliberate faults of the product, each made at run time; the checker must see them.

A mutant changes a path of the product, never the simulation or the checker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from perdure.actors.acceptance import Verdict
from perdure.actors.admission import actor as admission
from perdure.actors.admission.answers import Answers
from perdure.actors.admission.queue import apply as apply_queue
from perdure.actors.budget import actor as account_actor
from perdure.actors.budget.actor import Account
from perdure.actors.budget.pool import Given, Pool
from perdure.actors.context import build as context_build
from perdure.actors.durable import Durable
from perdure.actors.events import EffectRegistered, Granted, TaskPassivated
from perdure.actors.executor.executor import Executor, Outcome, Work
from perdure.actors.ledger.door import Door
from perdure.actors.ledger.resolve import Resolver
from perdure.actors.ledger.work import Returned
from perdure.actors.protocol import SettleReply
from perdure.actors.requests import Requests
from perdure.actors.task import judge
from perdure.actors.task.approvals import Approvals
from perdure.actors.timers import actor as timer_actor
from perdure.actors.timers.actor import Timers
from perdure.storage.journal import Journal
from perdure.storage.leases import Leases
from perdure.storage.memory import MemoryBackend
from perdure.storage.pending import Pending
from perdure.supervision.backoff import Backoff
from perdure.supervision.lifecycle import Down
from tests.simulation.mutants_parts import PART_MUTANTS

__all__ = ["MUTANTS", "mutated"]

MUTANTS: dict[str, Callable[[], Any]] = dict(PART_MUTANTS)


def mutant(make: Callable[[], Any]) -> Callable[[], Any]:
    """Register a mutant under its function's name."""
    MUTANTS[make.__name__] = make
    return make


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run the product with one mutation."""
    with MUTANTS[name]():
        yield


@mutant
def skip_the_flush() -> Any:
    """What waits for the flush goes out at once."""

    def when_durable(_: Journal, seq: int, callback: Callable[[], object]) -> None:
        del seq
        callback()

    return patch.object(Journal, "when_durable", when_durable)


@mutant
def record_before_execute() -> Any:
    """A `once` effect is recorded as done before it is."""
    run = Executor.run

    def eager(executor: Executor, work: Work) -> None:
        if (
            work.effect == "once"
            and work.kept
            and executor.status(work.key) == "absent"
        ):
            done = Returned(text="sent", anchors={})
            work.deliver(Outcome(key=work.key, status="completed", value=done))
            work = msgspec.structs.replace(work, deliver=lambda _: None)
        run(executor, work)

    return patch.object(Executor, "run", eager)


@mutant
def forget_settle() -> Any:
    """The account says that it settled, and did not."""

    def settle(account: Account, message: Any) -> None:
        done = SettleReply(op=message.op, attempt=message.attempt)
        message.reply_to.tell(message.then or done)

    return patch.object(Account, "_settle", settle)


@mutant
def settle_twice() -> Any:
    """A reservation may be settled though it is not there any more."""
    settle = Account._settle

    @contextmanager
    def twice() -> Iterator[None]:
        apply = account_actor.apply

        def lenient(state: Any, event: Any) -> Any:
            try:
                return apply(state, event)
            except KeyError:
                return msgspec.structs.replace(state, version=state.version + 1)

        def again(account: Account, message: Any) -> None:
            aside = account.state.reserved.get(f"{message.op}#{message.attempt}")
            settle(account, message)
            if aside is not None and message.op % 3 == 0:
                account.append(
                    account_actor.Settled(
                        op=message.op,
                        attempt=message.attempt,
                        book=aside.book,
                        amounts=aside.amounts,
                    )
                )

        with (
            patch.object(account_actor, "apply", lenient),
            patch.object(Account, "_settle", again),
        ):
            yield

    return twice()


@mutant
def ignore_the_runtimes_epoch() -> Any:
    """A process that was taken over still writes to the store."""
    return patch.object(MemoryBackend, "_refuse_if_stale", lambda _: None)


@mutant
def ignore_the_lease() -> Any:
    """Whoever has had a stream may still append to it, and still act."""

    @contextmanager
    def lenient() -> Iterator[None]:
        def check(leases: Leases, lease: Any) -> Any:
            return leases._state(lease.stream)

        with (
            patch.object(Leases, "check", check),
            patch.object(Durable, "owns", lambda _: True),
            patch.object(Journal, "raise_epoch", lambda *_: []),
        ):
            yield

    return lenient()


@mutant
def load_before_the_queue() -> Any:
    """A read does not wait for the appends before it."""
    due = property(lambda pending: bool(pending._reads))
    return patch.object(Pending, "read_due", due)


@mutant
def reuse_a_stale_snapshot() -> Any:
    """The state of an earlier snapshot is written as the newer one's."""
    snapshot = Journal.snapshot
    bodies: dict[tuple[int, str], bytes] = {}

    def stale(journal: Journal, taken: Any) -> None:
        key = id(journal), taken.stream
        body = bodies.setdefault(key, taken.body)
        snapshot(journal, msgspec.structs.replace(taken, body=body))

    return patch.object(Journal, "snapshot", stale)


@mutant
def drop_the_wake_again_mark() -> Any:
    """A task that is woken while it goes to sleep sleeps on."""

    def deaf(state: Any, event: Any) -> Any:
        after = apply_queue(state, event)
        if isinstance(event, TaskPassivated) and event.waiting:
            place = msgspec.structs.replace(after.tasks[event.task], where="waiting")
            tasks = {**after.tasks, event.task: place}
            after = msgspec.structs.replace(after, tasks=tasks)
        return after

    return patch.object(admission, "apply", deaf)


@mutant
def lose_a_timer() -> Any:
    """Whoever began to wait before the timers started is never woken."""

    def blind(timers: Timers) -> None:
        timers.address.tell(timer_actor._Found(incarnation=timers.incarnation, rows=[]))

    return patch.object(Timers, "_read", blind)


@mutant
def wake_before_the_time() -> Any:
    """A wait is over when half of it is."""
    rest = Approvals._rest

    def hasty(approvals: Approvals, op: Any, seconds: float) -> None:
        rest(approvals, op, seconds / 2)

    return patch.object(Approvals, "_rest", hasty)


@mutant
def run_without_approval() -> Any:
    """A call that needs an approval runs before anybody has answered."""

    @contextmanager
    def open_door() -> Iterator[None]:
        passes = Approvals.passes

        def hasty(approvals: Approvals, op: Any) -> bool:
            name = getattr(op.action, "tool", "")
            tool = approvals._task.agent.tools.get(name)
            return bool(tool and tool.approval) or passes(approvals, op)

        with (
            patch.object(Approvals, "passes", hasty),
            patch.object(Door, "_approved", lambda *_: True),
        ):
            yield

    return open_door()


@mutant
def answer_an_approval_twice() -> Any:
    """Nobody looks whether an approval was answered before."""

    @contextmanager
    def forgetful() -> Iterator[None]:
        answer = Answers.answer

        def again(answers: Answers, message: Any) -> None:
            read = answers._admission.read
            answers._given.clear()

            def unseen(look: Any, then: Any) -> None:
                read(look, lambda found: then((found[0], None, found[2])))

            with patch.object(answers._admission, "read", unseen):
                answer(answers, message)

        with patch.object(Answers, "answer", again):
            yield

    return forgetful()


@mutant
def restart_without_backoff() -> Any:
    """A crashed actor is back at once."""
    return patch.object(Backoff, "delay", lambda *_: 0.0)


@mutant
def send_again_on_down() -> Any:
    """Open requests are sent again when the other side has died, not when it is up."""

    @contextmanager
    def early() -> Iterator[None]:
        receive, up = Durable.receive, Requests.up

        def heard(actor: Any, message: Any) -> None:
            requests = getattr(actor, "requests", None)
            if isinstance(message, Down) and requests is not None:
                up(requests, message.name)
            receive(actor, message)

        with (
            patch.object(Durable, "receive", heard),
            patch.object(Requests, "up", lambda *_: None),
        ):
            yield

    return early()


@mutant
def probe_while_the_worker_lives() -> Any:
    """Nobody looks whether a worker still runs."""
    return patch.object(Executor, "worker_lives", lambda *_: False)


@mutant
def believe_an_absence_at_once() -> Any:
    """What a probe does not see did not happen."""
    return patch.object(Resolver, "_believed_at", lambda *_: 0.0)


@mutant
def a_new_key_for_each_attempt() -> Any:
    """The request id tells attempts apart, so that nobody outside can join them."""

    def fresh(made: EffectRegistered) -> str:
        return f"perdure-{made.key}-{made.attempt}"

    return patch.object(EffectRegistered, "request_id", property(fresh))


@mutant
def accept_every_answer() -> Any:
    """No acceptance function is asked."""
    return patch.object(judge, "settled", lambda *_: Verdict(ok=True))


@mutant
def grant_without_limit() -> Any:
    """Accounts refuse nothing."""
    return patch.object(account_actor, "refusal", lambda *_, **__: None)


@mutant
def give_a_grant_twice() -> Any:
    """The pool does not look whether it gave a grant."""
    allocate = Pool.handle

    def generous(pool: Pool, message: Any) -> None:
        if type(message).__name__ == "FetchGrants":
            pool.recent.look(
                message.task, lambda given, _: again(pool, message.task, given)
            )
        allocate(pool, message)

    def again(pool: Pool, task: str, given: Given) -> None:
        for grant, amounts in given.grants.items():
            pool.append(Granted(grant=grant, task=task, amounts=amounts))

    return patch.object(Pool, "handle", generous)


@mutant
def forget_the_goal() -> Any:
    """After a crash the model is not told what it is all for."""
    render = context_build.render_recovery

    def aimless(view: Any) -> str:
        return render(msgspec.structs.replace(view, goal="go on"))

    return patch.object(context_build, "render_recovery", aimless)
