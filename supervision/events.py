"""Every log event of this room, with its fields."""

from __future__ import annotations

__all__ = ["EVENTS"]

EVENTS: dict[str, tuple[str, ...]] = {
    # `started()` of an incarnation has returned (a supervisor: its children too).
    "actor.started": ("name", "incarnation"),
    # It ended as it should; `reason` is normal or shutdown, `detail` says why.
    "actor.stopped": ("name", "incarnation", "reason", "detail"),
    # It raised, was killed, or never finished starting.
    "actor.crashed": ("name", "incarnation", "error", "traceback"),
    # Messages that an incarnation left unread when it ended.
    "mailbox.dropped": ("name", "incarnation", "count"),
    # A message that an actor of this room does not know; it was ignored.
    "message.unexpected": ("name", "kind"),
    # `child` starts again after `delay` seconds; `count` crashes in a row so far.
    "supervisor.restarting": ("name", "child", "delay", "count", "error"),
    # The gate is asked whether `child` may start again.
    "supervisor.asked": ("name", "child", "gate"),
    # It stops its children and ends, over its limit or told so by its gate.
    "supervisor.gave_up": ("name", "child", "reason"),
    # A turn has taken more than 0.1 s so far; `stack` shows where it is.
    "turn.slow": ("name", "incarnation", "seconds", "stack"),
    # A timer, a background step or a promise's callback raised.
    "callback.failed": ("where", "error", "traceback"),
    # A job's function raised; jobs are expected to report their own errors.
    "job.failed": ("name", "error", "traceback"),
}
