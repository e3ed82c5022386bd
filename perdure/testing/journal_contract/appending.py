"""What every store must do; each back end runs this suite over its own `world`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ...storage.errors import Fenced, Rejected
from ...storage.records import Command, Draft, Lease, Record, blob_digest
from .bench import Bench, draft, row

__all__ = ["AppendContract", "World", "error_of", "fenced", "refusal"]

E = TypeVar("E", bound=Exception)


class World(Protocol):
    """One store, whoever opens it."""

    def open(self, **options: Any) -> Bench:
        """Open the store."""

    def kill(self, bench: Bench) -> None:
        """End an owner as SIGKILL would."""

    def send(self, command: Command) -> None:
        """Send a command from outside."""

    def usurp(self) -> None:
        """Raise the runtime's epoch behind the present owner's back."""

    def spoil_record(self, seq: int) -> None:
        """Change one byte of a stored record."""

    def spoil_snapshot(self, stream: str, version: int) -> None:
        """Change one byte of a stored snapshot."""

    def advance_snapshot(self, stream: str, version: int, ahead: int) -> None:
        """Store a good snapshot that claims a version which the stream lacks."""


def error_of(kind: type[E], call: Callable[[], object]) -> E:
    """Return the error of this kind that a call must raise."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def refusal(bench: Bench, lease: Lease, bad: Draft) -> Rejected:
    """Append what must be rejected and return the error."""
    return error_of(Rejected, lambda: bench.journal.append([(lease, [bad])]))


def fenced(bench: Bench, lease: Lease, version: int) -> None:
    """Append under a lease that must be stale."""
    error_of(Fenced, lambda: bench.append(lease, version))


class AppendContract:
    """What appending promises: order, all or nothing, leases."""

    # -- append ------------------------------------------------------------------

    def test_records_come_back_as_they_were_appended(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("task/1", epoch=7)
        appended = bench.append(lease, 1, 2, schema_version=3)
        assert list(bench.load("task/1").records) == appended
        first = appended[0]
        assert (first.seq, first.version, first.type) == (1, 1, "Noted")
        assert (first.schema_version, first.codec) == (3, "json")
        assert (first.epoch, first.incarnation) == (7, 1)
        assert (first.at, first.body) == (bench.now, b'{"n":1}')

    def test_nothing_is_acknowledged_before_the_flush(self, world: World) -> None:
        bench = world.open()
        heard: list[int] = []
        (record,) = bench.append(bench.lease("a"), 1)
        bench.journal.when_durable(record.seq, lambda: heard.append(record.seq))
        assert (heard, bench.journal.durable_seq, bench.journal.backlog) == ([], 0, 1)
        bench.commit()
        assert (heard, bench.journal.durable_seq, bench.journal.backlog) == ([1], 1, 0)

    def test_a_callback_for_a_durable_record_runs_at_once(self, world: World) -> None:
        bench = world.open()
        bench.append(bench.lease("a"), 1)
        bench.commit()
        heard: list[str] = []
        bench.journal.when_durable(1, lambda: heard.append("now"))
        assert heard == ["now"]

    def test_one_flush_covers_every_stream(self, world: World) -> None:
        points: list[tuple[str, str]] = []
        bench = world.open(hit=lambda point, subject: points.append((point, subject)))
        for name in ("a", "b", "c"):
            bench.append(bench.lease(name), 1, type=f"Type{name}")
        points.clear()
        bench.commit()
        assert points == [
            ("journal.flush.before", "Typec"),
            ("journal.flush.after", "Typec"),
            ("journal.ack.before", "Typec"),
        ]
        assert bench.journal.durable_seq == 3

    def test_listeners_hear_in_order_before_the_callbacks(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        heard: list[object] = []

        def listener(records: Sequence[Record]) -> None:
            heard.append([record.seq for record in records])

        bench.journal.on_flushed(listener)
        for version in (1, 2, 3):
            bench.append(lease, version)
        bench.journal.when_durable(3, lambda: heard.append("third"))
        bench.journal.when_durable(1, lambda: heard.append("first"))
        bench.commit()
        assert heard == [[1, 2, 3], "first", "third"]

    def test_a_raising_listener_harms_nobody_else(self, world: World) -> None:
        bench = world.open()
        heard: list[str] = []

        def bad(_: object = None) -> None:
            raise RuntimeError("bad")

        bench.journal.on_flushed(bad)
        bench.append(bench.lease("a"), 1)
        bench.journal.when_durable(1, bad)
        bench.journal.when_durable(1, lambda: heard.append("good"))
        bench.commit()
        assert heard == ["good"]
        assert [event for event, _ in bench.warnings] == ["journal.callback_failed"] * 2

    def test_a_version_that_is_not_next_is_rejected(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        bench.append(lease, 1)
        for wrong in (1, 3):
            assert "2 is the next" in refusal(bench, lease, draft("a", wrong)).reason
        bench.append(lease, 2)
        assert bench.load("a").head == 2

    def test_a_refused_append_leaves_nothing_behind(self, world: World) -> None:
        bench = world.open()
        first, second = bench.lease("a"), bench.lease("b")
        changes = [(first, [draft("a", 1)]), (second, [draft("b", 2)])]
        error = error_of(Rejected, lambda: bench.journal.append(changes))
        assert error.subject == "b"
        bench.append(first, 1)
        bench.commit()
        assert bench.read(lambda reader: reader.streams()) == ["a"]
        assert bench.journal.durable_seq == 1

    def test_what_is_too_big_is_rejected(self, world: World) -> None:
        bench = world.open(max_body=100)
        lease = bench.lease("a")
        big = b'"' + b"x" * 99 + b'"'
        assert "101 bytes" in refusal(bench, lease, draft("a", 1, body=big)).reason
        rows = (row("k", b"x" * 100),)
        assert "tasks/k" in refusal(bench, lease, draft("a", 1, rows=rows)).reason
        bench.append(lease, 1, body=big[1:])
        assert bench.load("a").head == 1

    def test_what_cannot_be_stored_is_rejected_alone(self, world: World) -> None:
        # R29: a poison draft must not fail the batch of everybody else.
        bench = world.open()
        lease = bench.lease("a")
        for poison in (
            draft("a", 1, body="text"),
            draft("a", 1, type=None),
            draft("a", 1, type=""),
            draft("a", 1, type="\ud800"),
            draft("a", 1, rows=(row("k", 3),)),  # type: ignore[arg-type]
            draft("a", 1, rows=(row("\udfff", b""),)),
            draft("a", 1, blobs=("text",)),
            draft("a", 1, schema_version=2**70),
            draft("a", True),
        ):
            refusal(bench, lease, poison)
        bench.append(lease, 1)
        assert bench.load("a").head == 1

    def test_a_draft_under_the_lease_of_another_stream_is_rejected(
        self, world: World
    ) -> None:
        bench = world.open()
        assert "lease of a" in refusal(bench, bench.lease("a"), draft("b", 1)).reason

    # -- rows and blobs ----------------------------------------------------------

    def test_rows_are_committed_with_their_record(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        bench.append(lease, 1, rows=(row("x/1", b"one"), row("x/2", b"two")))
        bench.append(lease, 2, rows=(row("x/1", b"ein"), row("x/2", None)))
        bench.append(lease, 3, rows=(row("y", b"why"), row("é", b"accent")))
        assert bench.read(lambda reader: reader.rows("tasks")) == [
            row("x/1", b"ein"),
            row("y", b"why"),
            row("é", b"accent"),
        ]
        assert bench.read(lambda r: r.rows("tasks", "x/")) == [row("x/1", b"ein")]
        assert bench.read(lambda r: r.row("tasks", "y")) == b"why"
        assert bench.read(lambda r: r.row("tasks", "x/2")) is None
        assert bench.read(lambda r: r.rows("other")) == []

    def test_the_last_row_of_a_prefix_is_found_alone(self, world: World) -> None:
        bench = world.open()
        rows = (row("x:1", b"one"), row("x:2", b"two"), row("y:3", b"three"))
        bench.append(bench.lease("a"), 1, rows=rows)
        assert bench.read(lambda r: r.last_row("tasks", "x:")) == row("x:2", b"two")
        assert bench.read(lambda r: r.last_row("tasks", "y:")) == row("y:3", b"three")
        assert bench.read(lambda r: r.last_row("tasks", "z:")) is None

    def test_a_deleted_row_can_come_back(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        for version, value in enumerate((b"1", None, b"2"), start=1):
            bench.append(lease, version, rows=(row("k", value),))
            bench.commit()
        assert bench.read(lambda r: r.row("tasks", "k")) == b"2"

    def test_a_blob_is_kept_under_its_digest(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        bench.append(lease, 1, blobs=(b"big", b"bigger"))
        bench.append(lease, 2, blobs=(b"big",))
        assert bench.read(lambda r: r.blob(blob_digest(b"big"))) == b"big"
        assert bench.read(lambda r: r.blob(blob_digest(b"bigger"))) == b"bigger"
        assert bench.read(lambda r: r.blob(blob_digest(b"none"))) is None

    # -- leases ------------------------------------------------------------------

    def test_a_new_incarnation_fences_the_older_one(self, world: World) -> None:
        bench = world.open()
        old = bench.lease("a")
        bench.append(old, 1)
        new = bench.lease("a")
        assert new.incarnation == old.incarnation + 1
        fenced(bench, old, 2)
        assert (bench.journal.holds(old), bench.journal.holds(new)) == (False, True)
        (record,) = bench.append(new, 2)
        assert record.incarnation == new.incarnation

    def test_incarnations_grow_over_a_restart(self, world: World) -> None:
        bench = world.open()
        bench.append(bench.lease("a", epoch=4), 1)
        bench.commit()
        world.kill(bench)
        again = world.open()
        lease = again.lease("a", epoch=4)
        assert lease.incarnation == 2
        (record,) = again.append(lease, 2)
        assert record.seq == 2

    def test_an_epoch_below_the_recorded_one_is_fenced(self, world: World) -> None:
        bench = world.open()
        bench.append(bench.lease("a", epoch=4), 1)
        bench.commit()
        world.kill(bench)
        again = world.open()
        error = error_of(Fenced, lambda: again.lease("a", epoch=3))
        assert error.reason == "epoch 3 was asked for, 4 is current"

    def test_raising_an_epoch_fences_the_family_only(self, world: World) -> None:
        bench = world.open()
        inside = [bench.lease(name) for name in ("task/1", "task/1/ledger")]
        outside = [bench.lease(name) for name in ("task/10", "task", "pool")]
        bench.journal.raise_epoch("task/1", 2)
        for lease in inside:
            fenced(bench, lease, 1)
            assert not bench.journal.holds(lease)
        for lease in outside:
            bench.append(lease, 1)
        bench.append(bench.lease("task/1", epoch=2), 1)

    def test_queued_records_of_a_fenced_family_are_left_out(self, world: World) -> None:
        bench = world.open()
        heard: list[str] = []
        told: list[int] = []
        bench.journal.on_fenced(lambda records: told.extend(r.seq for r in records))
        first = bench.lease("task/1")
        bench.append(first, 1)
        bench.commit()
        bench.append(first, 2)
        bench.append(bench.lease("pool"), 1)
        bench.append(first, 3)
        bench.journal.when_durable(2, lambda: heard.append("fenced"))
        bench.journal.when_durable(3, lambda: heard.append("pool"))
        bench.journal.raise_epoch("task/1", 2)
        assert told == [2, 4]
        bench.commit()
        bench.journal.when_durable(4, lambda: heard.append("fenced, asked late"))
        assert heard == ["pool"]
        assert bench.journal.backlog == 0
        assert bench.load("task/1").head == 1
        bench.append(bench.lease("task/1", epoch=2), 2)
        assert [r.seq for r in bench.load("task/1").records] == [1, 5]

    def test_an_append_shared_with_another_family_is_never_split(
        self, world: World
    ) -> None:
        bench = world.open()
        task, pool = bench.lease("task/1"), bench.lease("pool")
        bench.append(task, 1)
        bench.journal.append([(pool, [draft("pool", 1)]), (task, [draft("task/1", 2)])])
        bench.append(task, 3)
        bench.journal.raise_epoch("task/1", 2)
        assert [r.version for r in bench.load("task/1").records] == [1, 2]
        assert bench.load("pool").head == 1

    def test_a_read_is_served_though_all_before_it_was_left_out(
        self, world: World
    ) -> None:
        bench = world.open()
        bench.append(bench.lease("task/1"), 1)
        bench.journal.raise_epoch("task/1", 2)
        assert bench.load("task/1").head == 0

    def test_a_stale_runtime_writes_nothing(self, world: World) -> None:
        bench = world.open()
        lease = bench.lease("a")
        failures: list[Exception] = []
        heard: list[str] = []
        bench.journal.on_failed(failures.append)
        bench.append(lease, 1)
        bench.journal.when_durable(1, lambda: heard.append("acknowledged"))
        world.usurp()
        bench.commit()
        assert [type(error) for error in failures] == [Fenced]
        assert heard == []
        assert bench.journal.health().state == "failed"
        world.kill(bench)
        assert world.open().load("a").head == 0

    def test_each_opening_raises_the_runtime_epoch(self, world: World) -> None:
        epochs: list[int] = []
        for _ in range(3):
            bench = world.open()
            epochs.append(bench.journal.runtime_epoch)
            world.kill(bench)
        assert epochs == [1, 2, 3]
