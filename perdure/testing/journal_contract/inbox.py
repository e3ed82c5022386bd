"""What the inbox of every store must do; see `contract`."""

from __future__ import annotations

from typing import Any

from ...storage.errors import Rejected
from ...storage.inbox import ANSWERS, MAX_COMMAND, answer_row
from ...storage.records import Command
from .appending import World, error_of
from .bench import Bench, draft
from .capabilities import all_need

__all__ = ["InboxContract", "command"]


def command(name: str, **fields: Any) -> Command:
    fields.setdefault("kind", "cancel")
    fields.setdefault("subject", "t-1")
    return Command(id=name, at=1.5, **fields)


def ids(bench: Bench, after: int = 0) -> list[str]:
    return [one.id for one in bench.read(lambda reader: reader.commands(after))]


@all_need("inbox")
class InboxContract:
    """Commands are durable rows, in order, answered with what they did."""

    def test_commands_are_read_in_the_order_they_were_sent(self, world: World) -> None:
        bench = world.open()
        for name in ("c", "a", "b"):
            world.send(command(name))
        assert ids(bench) == ["c", "a", "b"]
        second = bench.read(lambda reader: reader.commands())[1]
        assert second == command("a", place=second.place)
        assert ids(bench, second.place) == ["b"]

    def test_what_was_sent_about_somebody_is_found_answered_or_not(
        self, world: World
    ) -> None:
        bench = world.open()
        for name, subject in (("c1", "t-1"), ("c2", "t-2"), ("c3", "a-1")):
            world.send(command(name, subject=subject))
        bench.append(bench.lease("a"), 1, rows=(answer_row("c1", b"done"),))
        found = bench.read(lambda reader: reader.sent(["t-1", "a-1", "t-9"]))
        assert [one.id for one in found] == ["c1", "c3"]

    def test_a_command_waits_for_the_next_owner(self, world: World) -> None:
        bench = world.open()
        bench.append(bench.lease("a"), 1)
        bench.commit()
        bench.journal.close()
        world.send(command("c"))
        assert ids(world.open()) == ["c"]

    def test_a_command_survives_the_kill_of_the_owner(self, world: World) -> None:
        bench = world.open()
        world.send(command("c"))
        world.kill(bench)
        assert ids(world.open()) == ["c"]

    def test_an_answer_goes_with_the_event_and_ends_the_command(
        self, world: World
    ) -> None:
        bench = world.open()
        world.send(command("c"))
        world.send(command("d"))
        row = answer_row("c", b'"done"')
        bench.journal.append([(bench.lease("a"), [draft("a", 1, rows=(row,))])])
        assert ids(bench) == ["d"]
        assert bench.read(lambda reader: reader.row(ANSWERS, "c")) == b'"done"'

    def test_an_answer_that_was_not_flushed_leaves_the_command(
        self, world: World
    ) -> None:
        bench = world.open()
        world.send(command("c"))
        row = answer_row("c", b'"done"')
        bench.journal.append([(bench.lease("a"), [draft("a", 1, rows=(row,))])])
        world.kill(bench)
        assert ids(world.open()) == ["c"]

    def test_the_owner_is_told_that_a_command_came(self, world: World) -> None:
        bench = world.open()
        told: list[int] = []
        bench.journal.watch_inbox(lambda: told.append(1))
        bench.pass_time()  # the first look finds whatever came before it
        told.clear()
        bench.pass_time()
        assert told == []
        world.send(command("c"))
        bench.pass_time()
        assert told == [1]
        bench.pass_time()
        assert told == [1]
        world.send(command("d"))
        bench.pass_time()
        assert told == [1, 1]

    def test_its_own_writes_do_not_tell_the_owner(self, world: World) -> None:
        bench = world.open()
        told: list[int] = []
        bench.journal.watch_inbox(lambda: told.append(1))
        bench.pass_time()
        told.clear()
        bench.append(bench.lease("a"), 1)
        bench.pass_time()
        assert told == []

    def test_a_later_listener_takes_the_place_of_the_first(self, world: World) -> None:
        bench = world.open()
        told: list[str] = []
        bench.journal.watch_inbox(lambda: told.append("first"))
        bench.journal.watch_inbox(lambda: told.append("second"))
        world.send(command("c"))
        bench.pass_time()
        assert told == ["second"]

    def test_an_id_is_sent_once_and_a_body_is_bounded(self, world: World) -> None:
        bench = world.open()
        world.send(command("c"))
        error_of(Rejected, lambda: world.send(command("c")))
        big = command("d", body=b"x" * (MAX_COMMAND + 1))
        error_of(Rejected, lambda: world.send(big))
        assert ids(bench) == ["c"]
