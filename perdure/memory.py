"""Facts that outlast tasks, as a host states and reads them: `runtime.memory`."""

from __future__ import annotations

import asyncio
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .actors import names
from .actors.memory.facts import GLOBAL, Said, value_text, why_not_said
from .actors.protocol import ChangeFact, FactChanged
from .actors.storable import is_storable
from .asking import Asking
from .errors import Misuse
from .storage.reader import Reader

if TYPE_CHECKING:
    from .views_facts import FactLine

__all__ = ["Memory", "said_of"]

T = TypeVar("T")
LONGEST = 200  # characters of who says so


class Memory:
    """What is known beyond one task.

    A scope is ``global``, ``group:NAME`` or ``task:ID``; a task knows of what is
    global, of its group, and of itself. A call returns when its change is durable.
    """

    def __init__(
        self,
        *,
        ask: Callable[..., Any],
        read: Callable[[Callable[[Reader], T]], T],
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._ask = ask
        self._read: Callable[[Callable[[Reader], Any]], Any] = read
        self._now = now
        self._new_id = new_id

    def know(
        self,
        key: str,
        value: Any,
        *,
        scope: str = GLOBAL,
        subject: str = "",
        core: bool | None = None,
        evidence: str = "",
        until: float | None = None,
        by: str = "host",
    ) -> str:
        """Keep a fact; one of another value ends, and stays in the history.

        The same again changes nothing. Core facts stand whole in every request of the
        scope's tasks, and running ones are told at once; others are recalled on demand.

        Args:
            key: what the value is of, one line.
            value: a short JSON value: text, a number, a list …
            scope: who is to know it.
            subject: whom or what it is about, where its deletion may be asked for.
            core: None leaves a fact as it is, and a new one recalled on demand.
            evidence: where it comes from; `by` where nothing else is given.
            until: second since the epoch from which it does not hold any more.
            by: who says so.

        Returns:
            The id of the fact.

        Raises:
            Misuse: naming the argument, the value and the fix; or naming the core facts
                that are too much together, with their sizes.
            UseAsync: inside an event loop.
        """
        Asking.refuse_in_loop("know", "`await runtime.memory.aknow(...)`")
        _check_by(by)
        said = said_of(
            key=key,
            value=value,
            scope=scope,
            subject=subject,
            core=core,
            evidence=evidence or by,
            until=until,
        )
        return self._change("know", said, by).fact

    def confirm(self, fact: str, *, by: str = "operator") -> str:
        """Make a fact of a hypothesis, by its id; return the id of the fact.

        Raises Misuse where there is none of that id, UseAsync inside an event loop.
        """
        Asking.refuse_in_loop("confirm", "`await runtime.memory.aconfirm(...)`")
        return self._by_id("confirm", fact, by).fact

    def drop(self, fact: str, *, by: str = "operator") -> None:
        """End a fact or a hypothesis that does not hold, by its id.

        Raises Misuse where there is none of that id, UseAsync inside an event loop.
        """
        Asking.refuse_in_loop("drop", "`await runtime.memory.adrop(...)`")
        self._by_id("drop", fact, by)

    async def aknow(self, key: str, value: Any, **options: Any) -> str:
        """`know` for event loops; the same arguments."""
        return await asyncio.to_thread(self.know, key, value, **options)

    async def aconfirm(self, fact: str, *, by: str = "operator") -> str:
        """`confirm` for event loops."""
        return await asyncio.to_thread(self.confirm, fact, by=by)

    async def adrop(self, fact: str, *, by: str = "operator") -> None:
        """`drop` for event loops."""
        await asyncio.to_thread(self.drop, fact, by=by)

    def facts(
        self, *, scope: str | None = None, subject: str | None = None
    ) -> list[FactLine]:
        """The facts and hypotheses that are current, oldest first.

        Raises Misuse for a scope or a subject that is no text.
        """
        from . import views_facts

        _check_asked("facts", scope=scope, subject=subject)
        now = self._now()
        found: list[FactLine] = self._read(
            lambda reader: views_facts.facts(reader, now, scope=scope, subject=subject)
        )
        return found

    def history(
        self, key: str, *, scope: str | None = None, subject: str = ""
    ) -> list[FactLine]:
        """All that was ever said of a key, oldest first; of every scope by default.

        Raises Misuse for a key, a scope or a subject that is no text.
        """
        from . import views_facts

        if key is None:
            raise Misuse("history: key=None must be text, a key as `facts` has it")
        _check_asked("history", key=key, scope=scope, subject=subject)
        found: list[FactLine] = self._read(
            lambda reader: views_facts.history(
                reader, key, scope=scope, subject=subject
            )
        )
        return found

    def _by_id(self, kind: Any, fact: str, by: str) -> FactChanged:
        _check_by(by)
        if not isinstance(fact, str):
            raise Misuse(f"{kind}: fact={fact!r} must be an id, as `facts` has it")
        return self._change(kind, fact, by)

    def _change(self, kind: Any, what: Said | str, by: str) -> FactChanged:
        request = self._new_id()  # one for all attempts to ask
        done: FactChanged = self._ask(
            lambda promise: ChangeFact(
                request=request, kind=kind, what=what, by=by, promise=promise
            ),
            to=names.MEMORY,
        )
        return done


def said_of(*, value: Any, **given: Any) -> Said:
    """What somebody says, checked. Raises Misuse, naming field, value and fix."""
    for name in ("key", "scope", "subject", "evidence"):
        if not isinstance(given[name], str):
            raise Misuse(f"{name}={given[name]!r} must be text")
    core, until = given["core"], given["until"]
    if core is not None and not isinstance(core, bool):
        raise Misuse(f"core={core!r} must be True, False or None")
    number = isinstance(until, int | float) and not isinstance(until, bool)
    if until is not None and not number:
        raise Misuse(f"until={until!r} must be a second since the epoch, or None")
    try:
        text = value_text(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise Misuse(f"value={_shown(value)} is no JSON value: {error}") from None
    said = Said(value=text, **given)
    if wrong := why_not_said(said):
        raise Misuse(wrong)
    return said


def _shown(value: object) -> str:
    """A value as an error names it; what is too deep to be shown by its type."""
    try:
        return reprlib.repr(value)
    except RecursionError:
        return f"<{type(value).__name__}>"


def _check_asked(call: str, **given: object) -> None:
    for name, text in given.items():
        if text is None or (isinstance(text, str) and is_storable(text)):
            continue
        raise Misuse(f"{call}: {name}={text!r} must be text, without lone surrogates")


def _check_by(by: object) -> None:
    if not isinstance(by, str) or not by.isprintable() or not 0 < len(by) <= LONGEST:
        raise Misuse(
            f"by={by!r} must be one line of text of at most {LONGEST} characters"
        )
