"""What goes on record of acceptance: who judged, what they said, and on what."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import msgspec

from ..acceptance import Accept, ModelJudge, Verdict
from ..context.measure import canonical
from ..events import Ruling
from .checks import Check

__all__ = ["called", "ruled", "verdict_of"]

WHY = 1_000  # characters of a reason
EVIDENCE = 2_000  # characters of evidence, as JSON
NAME = 120  # characters of a judge's name
NO_REASON = "acceptance refused it without a reason"


def called(accept: Accept) -> str:
    """The name of a judge: of its function, or of what is ready-made with arguments."""
    if isinstance(accept, Check):
        return _clean(accept.name, NAME)
    if isinstance(accept, ModelJudge):
        return _clean(f"judge({accept.criterion!r})", NAME)
    name = getattr(accept, "__qualname__", "") or type(accept).__qualname__
    return _clean(str(name), NAME)


def verdict_of(answer: Any) -> Verdict:
    """What an answer of an acceptance function means, bounded so that it can be stored.

    Only True and an ok verdict are a pass. A text is the reason of a refusal. Whatever
    else comes back refuses and says what it was: an acceptance that forgot its `return`
    must not let everything through.
    """
    if answer is True:
        return Verdict(ok=True)
    if answer is False:
        return Verdict(ok=False, why=NO_REASON)
    if isinstance(answer, str) and answer:
        return Verdict(ok=False, why=_clean(answer, WHY))
    if isinstance(answer, Verdict):
        return _bounded(answer)
    why = f"acceptance answered {_kind(answer)}, not True"
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # never started: closed, it does not warn
        why += "; nobody awaited it: write the function with async def"
    return Verdict(ok=False, why=why)


def ruled(judge: Accept, verdict: Verdict) -> Ruling:
    """What one judge said, for the record."""
    return Ruling(
        who=called(judge),
        ok=verdict.ok,
        by=_kind_of(judge),
        why=verdict.why,
        evidence=verdict.evidence,
    )


def _kind_of(judge: Accept) -> Literal["function", "check", "model"]:
    if isinstance(judge, ModelJudge):
        return "model"
    return "check" if isinstance(judge, Check) else "function"


def _bounded(verdict: Verdict) -> Verdict:
    ok: Any = verdict.ok
    why = _clean(verdict.why, WHY) if isinstance(verdict.why, str) else ""
    if ok is not True:
        why = why or NO_REASON
    if ok is not True and ok is not False:
        why = f"acceptance answered ok of {_kind(ok)}, not True"
    return msgspec.structs.replace(
        verdict, ok=ok is True, why=why, evidence=_plain(verdict.evidence)
    )


def _plain(evidence: Any) -> dict[str, Any]:
    """Evidence as plain JSON that can be stored, cut where it is too long."""
    if not evidence:
        return {}
    try:
        plain = msgspec.to_builtins(evidence, str_keys=True)
        text = canonical(plain)
        text.encode()
    except Exception as error:  # the host's own objects may do anything
        return {"unreadable": _clean(f"{type(error).__name__}: {error}", WHY)}
    if not isinstance(plain, dict) or len(text) > EVIDENCE:
        return {"cut": text[:EVIDENCE]}
    return plain


def _clean(text: str, most: int) -> str:
    return text[:most].encode("utf-8", "replace").decode()  # no lone surrogates


def _kind(value: Any) -> str:
    return type(value).__name__
