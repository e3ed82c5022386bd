"""Every error that perdure raises at its front door, told apart by whose fault it is.

| error | fault | what to do |
| --- | --- | --- |
| `Misuse` | yours | give the value that the message names |
| `UseAsync` | yours | await the twin that the message names |
| `TaskNotFound` | yours | look the id up with `perdure ps` |
| `ContextBudgetError` | yours | raise the limit, or shorten the named part |
| `BudgetExhausted` | yours | `extend` the budget |
| `StoreRefused` | world | give another path, or the perdure that wrote the store |
| `StoreBusy` | world | end the owner, or wait for it |
| `RuntimeClosed` | yours | open a new `Runtime` on the store |
| `RuntimeFailed` | ours | see the log; open a new `Runtime`: nothing durable is lost |
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from .actors.errors import ContextBudgetError, Misuse, PerdureError

__all__ = [
    "BudgetExhausted",
    "ContextBudgetError",
    "Fault",
    "Misuse",
    "PerdureError",
    "RuntimeClosed",
    "RuntimeFailed",
    "StoreBusy",
    "StoreRefused",
    "TaskNotFound",
    "UseAsync",
]

Fault: TypeAlias = Literal["yours", "world", "ours"]


class _Leaf(PerdureError):
    """An error whose docstring is its message when none is given."""

    fault: ClassVar[Fault]

    def __init__(self, message: str = "") -> None:
        super().__init__(
            message or " ".join((self.__doc__ or type(self).__name__).split())
        )


class UseAsync(_Leaf):
    """A blocking call was made inside a running event loop: await its async twin."""

    fault = "yours"

    def __init__(self, call: str = "", twin: str = "") -> None:
        super().__init__(
            f"{call} would block the running event loop: use {twin}" if call else ""
        )


class TaskNotFound(_Leaf):
    """The store holds no task of this id: list the ones it holds with `perdure ps`."""

    fault = "yours"


class BudgetExhausted(_Leaf):
    """The budget has no room for this operation: `extend` it and the task goes on."""

    fault = "yours"


class StoreRefused(_Leaf):
    """The store cannot be used and was left untouched.

    Give a path that can be written and holds nothing, or a store of this layout.
    """

    fault = "world"


class StoreBusy(_Leaf):
    """Another process owns the store: end it or wait; reading needs no ownership."""

    fault = "world"


class RuntimeClosed(_Leaf):
    """The runtime is closed and takes no more work: open a new one on the store."""

    fault = "yours"


class RuntimeFailed(_Leaf):
    """The runtime gave up after repeated crashes, and its log says why.

    What was durable is on disk: a new runtime on the store goes on from there.
    """

    fault = "ours"
