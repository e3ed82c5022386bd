"""The fakes that perdure is tested with, for the tests of your agents.

    sim = SimulatedDispatcher(7)
    with Runtime(MemoryBackend(), agents=[agent], dispatcher=sim) as runtime:
        result = runtime.submit("agent", goal="…").wait(timeout=60)

runs a task in virtual time on one thread: same seed, same schedule. A `MemoryStore`
outlives its runtime, so that a second one can go on from it after `cut()`.
`crash_everywhere` kills your agent at every commit and says which tools mind, and
`simulate` runs it under seeded crashes. `Harness` is a store, a clock and a runtime in
one object; the fixture `perdure_runtime` of `perdure.testing.fixtures` gives one to a
test of pytest.
"""

from __future__ import annotations

from ..models.scripted import Scripted
from ..storage.memory import MemoryBackend, MemoryStore
from ..supervision.clock import VirtualClock
from ..supervision.faults import (
    DELIVERY,
    Fault,
    FaultPlan,
    InjectedCrash,
    InjectedFault,
    installed,
    seeded_faults,
)
from ..supervision.simulation import SimulatedDispatcher
from .crashing import CrashReport, Finding, crash_everywhere
from .harness import Harness
from .scripts import in_turn
from .simulating import SimulationFinding, SimulationReport, simulate

__all__ = [
    "DELIVERY",
    "CrashReport",
    "Fault",
    "FaultPlan",
    "Finding",
    "Harness",
    "InjectedCrash",
    "InjectedFault",
    "MemoryBackend",
    "MemoryStore",
    "Scripted",
    "SimulatedDispatcher",
    "SimulationFinding",
    "SimulationReport",
    "VirtualClock",
    "crash_everywhere",
    "in_turn",
    "installed",
    "seeded_faults",
    "simulate",
]
