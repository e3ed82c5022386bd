"""The fakes that perdure is tested with, for the tests of your agents.

    sim = SimulatedDispatcher(7)
    with Runtime(MemoryBackend(), agents=[agent], dispatcher=sim) as runtime:
        result = runtime.submit("agent", goal="…").wait(timeout=60)

runs a task in virtual time on one thread: same seed, same schedule. A `MemoryStore`
outlives its runtime, so that a second one can go on from it after `cut()`.
`crash_everywhere` kills your agent at every commit and says which tools mind.
"""

from __future__ import annotations

from ..models.scripted import Scripted
from ..storage.memory import MemoryBackend, MemoryStore
from ..supervision.clock import VirtualClock
from ..supervision.faults import Fault, FaultPlan, InjectedFault, installed
from ..supervision.simulation import SimulatedDispatcher
from .crashing import CrashReport, Finding, crash_everywhere

__all__ = [
    "CrashReport",
    "Fault",
    "FaultPlan",
    "Finding",
    "InjectedFault",
    "MemoryBackend",
    "MemoryStore",
    "Scripted",
    "SimulatedDispatcher",
    "VirtualClock",
    "crash_everywhere",
    "installed",
]
