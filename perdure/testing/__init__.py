"""The fakes that perdure is tested with, for the tests of your agents.

    sim = SimulatedDispatcher(7)
    with Runtime(MemoryBackend(), agents=[agent], dispatcher=sim) as runtime:
        result = runtime.submit("agent", goal="…").wait(timeout=60)

runs a task in virtual time on one thread: same seed, same schedule. A `MemoryStore`
outlives its runtime, so that a second one can go on from it after `cut()`.
"""

from __future__ import annotations

from ..models.scripted import Scripted
from ..storage.memory import MemoryBackend, MemoryStore
from ..supervision.clock import VirtualClock
from ..supervision.faults import Fault, FaultPlan, InjectedFault, installed
from ..supervision.simulation import SimulatedDispatcher

__all__ = [
    "Fault",
    "FaultPlan",
    "InjectedFault",
    "MemoryBackend",
    "MemoryStore",
    "Scripted",
    "SimulatedDispatcher",
    "VirtualClock",
    "installed",
]
