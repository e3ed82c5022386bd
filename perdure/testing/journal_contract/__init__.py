"""What every back end of a journal must do, as tests for pytest to collect.

    class TestMine(JournalContract):
        capabilities = ALL - {"snapshots"}

        @pytest.fixture
        def world(self, tmp_path):
            return MyWorld(tmp_path)

A `World` opens, kills and spoils one store; the suite does the rest, through a
`Journal` over the back end, driven by hand. Without a capability tests are skipped:

    erase       takes records out for good (`Backend.write` of a batch with an erasure)
    inbox       keeps what other processes send
    snapshots   keeps snapshots of streams
    spoil       the world can damage what is stored, so that the checks are seen to work
"""

from __future__ import annotations

from .appending import AppendContract, World
from .bench import Bench
from .capabilities import ALL
from .erasing import EraseContract
from .forgetting import ForgetContract
from .inbox import InboxContract
from .reading import ReadContract
from .trimming import TrimContract

__all__ = ["ALL", "Bench", "JournalContract", "World"]


class JournalContract(
    AppendContract,
    EraseContract,
    TrimContract,
    ForgetContract,
    ReadContract,
    InboxContract,
):
    """The whole suite; a back end's tests derive from it and give a `world`."""

    capabilities = ALL
