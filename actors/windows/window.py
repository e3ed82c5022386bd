"""Sliding windows of services, pure: who may begin now, and who at which time.

An operation that may begin has a *slot*: it begins within `grace` of its time, or not
at all by that slot. So a window that counts slots over `period` = per + grace never
sees more than `count` begin in any `per` seconds. One that must wait is promised a
time, in order of asking; its promise is kept for it `hold` seconds beyond that.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ..events import Event, SlotPromised, SlotTaken, WindowClosed, WindowsSet

__all__ = ["Answer", "Slot", "Window", "WindowsState", "answer", "apply", "grace"]

GRACE_SHARE = 0.05  # of the window
GRACE = (0.25, 5.0)  # seconds, least and most
PROMPT = 0.5  # share of the grace within which who comes is on time
HOLD = 30.0  # seconds, at most


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One slot that was taken: by which attempt, at which second since the epoch."""

    key: str
    at: float


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One service: its newest `count` slots, and the promises that can still be kept.

    `count` 0 sets no rate: the service is only closed at times. `waiting` is in order
    of asking, with the second that each attempt was promised; nothing begins before
    second `closed`.
    """

    count: int = 0
    per: float = 0.0
    slots: tuple[Slot, ...] = ()
    waiting: dict[str, float] = msgspec.field(default_factory=dict)
    closed: float = 0.0


class WindowsState(msgspec.Struct, frozen=True, kw_only=True):
    """All windows, by service."""

    version: int = 0
    windows: dict[str, Window] = msgspec.field(default_factory=dict)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt is told: it may begin, with a slot of time `at`, or waits for it.

    `known` says that it was told so before: nothing changes.
    """

    granted: bool
    at: float
    known: bool = False


def grace(per: float) -> float:
    """Seconds within which an operation with a slot must begin."""
    return min(max(per * GRACE_SHARE, GRACE[0]), GRACE[1])


def answer(window: Window, key: str, now: float, *, waited: bool) -> Answer:
    """Say whether attempt `key` may begin at second `now`, or when.

    `waited` says that it was promised a time before. Where it came too late for that,
    it still goes before those whose time has not come, if it can begin at once; else it
    stands last.
    """
    if not window.count:
        return Answer(granted=window.closed <= now, at=max(now, window.closed))
    for slot in window.slots:
        if slot.key == key and abs(now - slot.at) <= grace(window.per):
            return Answer(granted=True, at=slot.at, known=True)
    promised = _kept(window, now)
    if promised.get(key, now) > now:
        return Answer(granted=False, at=promised[key], known=True)
    if key not in promised:
        at = _earliest(window, promised.values(), now)
        if waited and at > now:
            come = [time for time in promised.values() if time <= now]
            at = now if _earliest(window, come, now) <= now else at
        return Answer(granted=at <= now, at=at)
    ahead = list(promised.values())[: list(promised).index(key)]
    on_time = now - promised[key] <= grace(window.per) * PROMPT
    if on_time and _earliest(window, ahead, now, promised[key]) <= promised[key]:
        # Its slot is of the time that it was promised: those behind are not put off.
        return Answer(granted=True, at=promised[key])
    at = _earliest(window, ahead, now)
    return Answer(granted=at <= now, at=at)


def _period(window: Window) -> float:
    return window.per + grace(window.per)


def _hold(window: Window) -> float:
    return min(_period(window), HOLD)


def _kept(window: Window, now: float) -> dict[str, float]:
    """The promises that are still held at second `now`, in order of asking."""
    hold = _hold(window)
    return {key: at for key, at in window.waiting.items() if now < at + hold}


def _earliest(
    window: Window, ahead: Collection[float], now: float, since: float | None = None
) -> float:
    """The first second at which one more may begin, behind those `ahead`.

    It is looked for from `since` on, which is now where it is not given.
    """
    soonest = max(now if since is None else since, window.closed)
    period = _period(window)
    # No promise is farther away than this, unless the clock was set back since: whoever
    # has one from then must not hold up the others for as long.
    farthest = soonest + (len(ahead) // window.count + 2) * period
    times = [one.at for one in _past(window, now)]
    times = sorted([*times, *(at for at in ahead if at <= farthest)])
    at = max(soonest, times[-1]) if times else soonest
    if len(times) >= window.count:
        at = max(at, times[-window.count] + period)
    return at


def _past(window: Window, now: float) -> tuple[Slot, ...]:
    """The slots that were taken, none of them later than now."""
    change = msgspec.structs.replace
    return tuple(change(one, at=min(one.at, now)) for one in window.slots)


def apply(state: WindowsState, event: Event) -> WindowsState:
    """Fold one event of the windows' stream."""
    change = msgspec.structs.replace
    version, windows = state.version + 1, state.windows
    match event:
        case WindowsSet(limits=limits):
            known = {
                name: change(one, count=0, per=0.0, slots=(), waiting={})
                for name, one in windows.items()
                if name not in limits and one.closed
            }
            for name, (count, per) in limits.items():
                old = windows.get(name, Window())
                slots = old.slots[-count:]
                known[name] = change(old, count=count, per=per, slots=slots)
            return WindowsState(version=version, windows=known)
        case SlotTaken(service=service, key=key, at=at):
            old = windows[service]
            waiting = {k: one for k, one in _kept(old, at).items() if k != key}
            slots = (*_past(old, at), Slot(key=key, at=at))[-old.count :]
            new = change(old, slots=slots, waiting=waiting)
        case SlotPromised(service=service, key=key, at=at, asked=asked):
            old = windows[service]
            waiting = {**_kept(old, asked), key: at}
            new = change(old, slots=_past(old, asked), waiting=waiting)
        case WindowClosed(service=service, until=until, said=said):
            windows = {
                name: one
                for name, one in windows.items()
                if one.count or one.closed > said
            }
            new = change(windows.get(service, Window()), closed=until)
        case _:
            raise TypeError(f"{type(event).__name__} does not belong to the windows")
    return WindowsState(version=version, windows={**windows, service: new})
