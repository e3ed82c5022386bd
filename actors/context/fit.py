"""Fitting a history into one request: whole units go, oldest first, or it refuses.

It controls requests, not archives: what is dropped here is stored elsewhere, or lost.
"""

from __future__ import annotations

from typing import get_args

from ..errors import ContextBudgetError
from ..model import Message, ToolSchema
from .held import Held
from .measure import CHARACTERS, copied
from .measures import AnyMeasure, chosen
from .notice import measured, notice
from .parts import Provider
from .references import reference
from .report import LOW_WATER, BudgetReport, PreparedContext, Profile
from .shrink import KEEP
from .units import Splitter

__all__ = ["MAX_CHARACTERS", "History", "check_options", "fit_context"]

MAX_CHARACTERS = 16000  # code points of canonical JSON


def fit_context(
    messages: list[Message],
    tools: list[ToolSchema],
    *,
    max_characters: int = MAX_CHARACTERS,
    required_task: str | None = None,
    profile: Profile = "source",
    measure: AnyMeasure = CHARACTERS,
    provider: Provider | None = None,
) -> PreparedContext:
    """Return copies of the messages that fit, and a report; the input stays as it is.

    Always kept: system and developer messages, the current task (the last user
    message), and the newest unit after it. Dropped whole, until the rest fits: what
    stands before the first user message, then older user turns, then earlier units
    of the current turn. A system notice then says how many messages are missing.

    Args:
        messages, tools: a chat history and tool schemas, plain JSON.
        max_characters: limit for the canonical JSON of both together.
        required_task: if given, the text that the current task must be; under
            ``runtime`` that of any user message, which is then kept as well.
        profile: ``source`` stops dropping as soon as the rest fits, and takes no
            content but text; ``strict`` also refuses what breaks providers
            (`refuse_strictly`), and takes typed parts; ``runtime`` does so too, drops
            down to `LOW_WATER`, keeps one notice with the cumulative count, or none
            where only the notice would not fit, and shortens the results of a newest
            exchange that alone does not fit to head, tail, size and digest.
        measure: what `max_characters` counts: a name that `Agent` takes, a function
            of one message (or of the list of tools), or a `Measure`.
        provider: what typed parts count, and how many calls a message may have;
            only under ``strict`` and ``runtime``.

    Raises `ContextBudgetError` where something is malformed or what must be kept
    does not fit. Source of the rules: A42-A79.
    """
    check_options(max_characters, profile, provider)
    if not isinstance(messages, list) or not messages:
        raise ContextBudgetError("messages must be a list, and not empty")
    held = Held(
        tools,
        profile=profile,
        measure=chosen(measure),
        provider=provider,
        required_task=required_task,
    )
    for message in messages:
        held.add(message)
    return _fitted(held, max_characters)


class History:
    """A history that grows, each message of which is validated and measured once.

    `fit` gives what `fit_context` would of all messages so far, in a time that
    depends on what it returns and not on how long the history is. Under ``runtime`` a
    cut stands until the limit is reached again, as though each request had been the
    start of the next: until then no byte of it changes. The messages are copied when
    they are appended, and all of them are held.

    Args: those of `fit_context`.

    Raises `ContextBudgetError` when built with options that `fit_context` refuses.
    """

    def __init__(
        self,
        tools: list[ToolSchema],
        *,
        max_characters: int = MAX_CHARACTERS,
        required_task: str | None = None,
        profile: Profile = "source",
        measure: AnyMeasure = CHARACTERS,
        provider: Provider | None = None,
    ) -> None:
        check_options(max_characters, profile, provider)
        self._limit = max_characters
        self._held = Held(
            tools,
            profile=profile,
            measure=chosen(measure),
            provider=provider,
            required_task=required_task,
        )

    def append(self, *messages: Message) -> None:
        """Add messages, in order; an exchange may be added piece by piece.

        Raises `ContextBudgetError` for the first that is malformed. Those before it
        were added; it and those after it were not.
        """
        for message in messages:
            self._held.add(copied(message))

    def fit(self) -> PreparedContext:
        """Return the request of this moment; raises what `fit_context` raises.

        In the report, `before` counts all messages, and `dropped_*` this cut alone.
        """
        return _fitted(self._held, self._limit)


def check_options(
    max_characters: int, profile: Profile, provider: Provider | None
) -> None:
    """Raise `ContextBudgetError` for options that no request can be fitted with."""
    if type(max_characters) is not int or max_characters < 1:
        raise ContextBudgetError(
            f"max_characters must be an int of at least 1, not {max_characters!r}"
        )
    if profile not in get_args(Profile):
        raise ContextBudgetError(
            f"profile must be source, strict or runtime, not {profile!r}"
        )
    if not isinstance(provider, Provider | None):
        raise ContextBudgetError(
            f"provider={provider!r} is no Provider; give one of those that "
            "perdure.context has, such as OPENAI, or Provider(name=..., parts=...)"
        )
    if provider is not None and profile == "source":
        raise ContextBudgetError(
            "the profile source takes text alone: give a provider with the profile "
            "strict or runtime"
        )


def _fitted(held: Held, limit: int) -> PreparedContext:
    held.check()
    runtime = held.profile == "runtime"
    cut = held.cut(limit, LOW_WATER if runtime else 1.0)
    messages = [held.messages[index] for index in cut.kept]
    count, size = len(messages), cut.size
    if runtime and held.measure.total(count, size, held.schemas) > limit:
        messages = _shortened(held, messages, cut.newest, limit)
        size = sum(map(held.part, messages))
    after = measured(held.measure, count, size, held.schemas, cut.omitted)
    noted = cut.omitted > 0
    if after > limit and runtime:
        after, noted = held.measure.total(count, size, held.schemas), False
    if after > limit:
        raise ContextBudgetError(
            "required task, instructions, schemas or newest exchange exceed "
            f"{held.measure.name.removesuffix('s')} budget: {after} of {limit} with "
            f"everything else left out (schemas alone {held.schemas}); raise the limit "
            "or shorten them"
        )
    fitted = copied(messages)
    if noted:
        fitted.insert(0, notice(cut.omitted))
    _validate(fitted, held)
    if runtime:
        held.edge = cut.edge
    return PreparedContext(
        messages=fitted,
        report=BudgetReport(
            before=held.measure.total(held.given, held.given_size, held.schemas),
            after=after,
            limit=limit,
            dropped_messages=cut.messages,
            dropped_turns=cut.turns,
            dropped_exchanges=cut.exchanges,
            profile=held.profile,
            omitted=cut.omitted,
            notice="placed" if noted else "left out" if cut.omitted else "none",
        ),
    )


def _shortened(
    held: Held, messages: list[Message], newest: int, limit: int
) -> list[Message]:
    """The messages with the newest exchange's results cut as far as it takes."""
    first = len(messages) - newest
    shorter = messages
    for keep in KEEP:
        shorter = [
            *messages[:first],
            *(_reference(message, keep) for message in messages[first:]),
        ]
        if held.total(shorter) <= limit:
            break
    return shorter


def _reference(message: Message, keep: int) -> Message:
    content = message["content"]
    if message["role"] != "tool" or not isinstance(content, str):
        return message
    shorter = reference(content, keep)
    return {**message, "content": shorter} if len(shorter) < len(content) else message


def _validate(messages: list[Message], held: Held) -> None:
    """The same rules on what goes out: nothing is sent that would be refused."""
    splitter = Splitter(provider=held.provider, strict=held.profile != "source")
    for message in messages:
        splitter.add(message)
    splitter.finish()
