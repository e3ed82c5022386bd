"""A small OTP for pykka: actors, addresses, dispatchers, supervisors, fault points."""

from __future__ import annotations

from .actor import Actor
from .address import Address
from .backoff import Backoff
from .clock import Clock, SystemClock, VirtualClock
from .dispatch import Background, Dispatcher, Timer
from .events import EVENTS
from .lifecycle import (
    NORMAL,
    SHUTDOWN,
    ActorStopped,
    Crash,
    Down,
    Exited,
    Normal,
    NotRunning,
    Reason,
    Shutdown,
    Started,
    Up,
)
from .pool import PoolDispatcher
from .promise import Promise
from .protocol import (
    ChildFailed,
    ChildStarted,
    GiveUp,
    MayRestart,
    Restart,
    StartChild,
    StartFailed,
    StopChild,
)
from .simulation import SimulatedDispatcher
from .spec import ChildSpec, SupervisorSpec
from .supervisor import Supervisor, SupervisorFailed
from .system import System

__all__ = [
    "EVENTS",
    "NORMAL",
    "SHUTDOWN",
    "Actor",
    "ActorStopped",
    "Address",
    "Background",
    "Backoff",
    "ChildFailed",
    "ChildSpec",
    "ChildStarted",
    "Clock",
    "Crash",
    "Dispatcher",
    "Down",
    "Exited",
    "GiveUp",
    "MayRestart",
    "Normal",
    "NotRunning",
    "PoolDispatcher",
    "Promise",
    "Reason",
    "Restart",
    "Shutdown",
    "SimulatedDispatcher",
    "StartChild",
    "StartFailed",
    "Started",
    "StopChild",
    "Supervisor",
    "SupervisorFailed",
    "SupervisorSpec",
    "System",
    "SystemClock",
    "Timer",
    "Up",
    "VirtualClock",
]
