"""Hard constraints: rules on the arguments of calls, as data. Pure.

The door refuses a call that breaks one, whatever the model says and whoever approved
it. A rule compares texts; it does not know what a tool does with them. `allow` is
exact, and holds against anything a model can write. `forbid` is for mistakes: spelling
is made plain first, but a text that a shell puts together, encodes or looks up
elsewhere gets past it.

There are no regular expressions: Python's may take exponential time, and they would
run in the turn of an actor. Words, with a star at an end, take linear time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .context.measure import canonical
from .context.wording import EASTERN
from .errors import Misuse
from .storable import is_storable

if TYPE_CHECKING:
    from .tool import Tool

__all__ = ["Rule", "check_rules", "merged", "refusal", "said"]

RULES = 32  # of a task; each call is compared with all of them
ENTRIES = 32  # of a rule
LONGEST = 200  # characters of an entry, a tool's name or a path
SAYS = 500  # characters
SHOWN = 80  # characters of a value that a model is told of
UNSEEN = re.compile(  # what no reader sees, beside what is not printable anyway
    "[\u0300-\u036f\u115f\u1160\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]"
)


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task must not do, whatever its model says.

    Args:
        says: the constraint in words; the model reads it among the others.
        tools: names of tools, ``db_*`` for several; none is every tool that acts.
            What waits, looks into the record or hands work on is meant only by name.
        argument: path of the argument that is looked at (``env``, ``target.env``);
            lists on the way are looked at item by item. Empty: all arguments.
        forbid: a call is refused where one of these stands anywhere in the argument,
            nested values and their names included: as whole words, in any case and
            width; ``prod*`` is the beginning of a word, ``*prod*`` any part of one.
        allow: a call is refused where the argument is anything but one of these,
            exactly; ``/srv/out/*`` is a beginning, with no ``..`` behind it. A call
            that has no such argument is not meant.

    Raises:
        Misuse: naming the field, the value and the fix.
    """

    says: str
    tools: tuple[str, ...] = ()
    argument: str = ""
    forbid: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.says, str) or not 0 < len(self.says.strip()) <= SAYS:
            raise Misuse(
                f"Rule: says={self.says!r} must be the constraint in words, {SAYS} "
                "characters at most"
            )
        if not is_storable(self.says):
            raise Misuse(f"Rule: says={self.says!r} holds a lone surrogate; remove it")
        for field in ("tools", "forbid", "allow"):
            entries = getattr(self, field)
            if isinstance(entries, list):
                entries = tuple(entries)
                msgspec.structs.force_setattr(self, field, entries)
            if wrong := _wrong(entries):
                raise Misuse(f"Rule {self.says!r}: {field}={entries!r} {wrong}")
        path = self.argument
        if not isinstance(path, str) or len(path) > LONGEST:
            raise Misuse(
                f"Rule {self.says!r}: argument={path!r} must be a path such as "
                f"'target.env', {LONGEST} characters at most"
            )
        if not is_storable(path):
            raise Misuse(
                f"Rule {self.says!r}: argument={path!r} holds a lone surrogate; "
                "remove it"
            )
        if path and not all(map(str.strip, path.split("."))):
            raise Misuse(
                f"Rule {self.says!r}: argument={path!r} has an empty name in it; give "
                "names with dots between"
            )
        if bool(self.forbid) == bool(self.allow):
            raise Misuse(
                f"Rule {self.says!r}: forbid={self.forbid!r} and allow={self.allow!r}: "
                "give one of the two"
            )
        if self.allow and not path:
            raise Misuse(
                f"Rule {self.says!r}: allow={self.allow!r} needs the argument that it "
                "is about; add argument="
            )


def check_rules(rules: object, whose: str) -> tuple[Rule, ...]:
    """The rules that somebody gave. Raises Misuse for what is none."""
    if isinstance(rules, Rule | str | Mapping) or not isinstance(rules, Sequence):
        raise Misuse(f"{whose}: rules={rules!r} is no list; give rules=[Rule(says=…)]")
    for rule in rules:
        if not isinstance(rule, Rule):
            raise Misuse(
                f"{whose}: rules= holds {rule!r}, which is no Rule; give Rule(says=…)"
            )
    return merged(rules)


def merged(*groups: Iterable[Rule]) -> tuple[Rule, ...]:
    """All rules of several, each once. Raises Misuse for more than a task may have."""
    rules = tuple(dict.fromkeys(rule for group in groups for rule in group))
    if len(rules) > RULES:
        raise Misuse(f"rules= has {len(rules)} rules; a task may have {RULES}")
    return rules


def said(constraints: Sequence[str], rules: Iterable[Rule]) -> tuple[str, ...]:
    """The constraints that a model reads: its task's, and what the rules say."""
    return tuple(dict.fromkeys([*constraints, *(rule.says for rule in rules)]))


def refusal(rules: Sequence[Rule], tool: Tool, values: Mapping[str, Any]) -> str:
    """Why a call must not be made, or nothing. `values` are its parsed arguments."""
    if not rules:
        return ""
    acts = not (tool.inside or tool.claims or tool.delegates or tool.rests or tool.asks)
    meant = [rule for rule in rules if _means(rule, tool.name, acts=acts)]
    if not meant:
        return ""
    plain: dict[str, Any] = msgspec.to_builtins(dict(values))
    for rule in meant:
        if why := _broken(rule, plain):
            return f"the rule {rule.says!r} forbids this call: {why}"
    return ""


def _wrong(entries: object) -> str:
    if not isinstance(entries, tuple):
        return "must be a list of texts"
    if len(entries) > ENTRIES:
        return f"has {len(entries)} entries; {ENTRIES} are allowed"
    for one in entries:
        if not isinstance(one, str) or len(one) > LONGEST:
            return f"holds {one!r}, which is no text of {LONGEST} characters at most"
        if not is_storable(one):
            return f"holds {one!r}, in which a surrogate stands alone; remove it"
        core, _, _ = _stars(one)
        if "*" in core:
            return f"holds {one!r}: a star stands at an end only"
        if one.strip("*") != "" and not _plain(core).strip():
            return f"holds {one!r}, in which nothing can be seen"
        if not one.strip():
            return f"holds {one!r}, which is empty"
    return ""


def _means(rule: Rule, name: str, *, acts: bool) -> bool:
    if not rule.tools:
        return acts
    return any(_fits(pattern, name) for pattern in rule.tools)


def _broken(rule: Rule, values: Mapping[str, Any]) -> str:
    found = _at(values, rule.argument) if rule.argument else list(values.values())
    where = rule.argument or "an argument"
    for text in (text for one in found for text in _texts(one)):
        if rule.allow and not any(_fits(entry, text) for entry in rule.allow):
            return f"{where} has {text[:SHOWN]!r}, which is not allowed"
        for entry in rule.forbid:
            if _stands(entry, _plain(text)):
                return f"{where} has {entry!r}"
    return ""


def _at(values: Mapping[str, Any], path: str) -> list[Any]:
    """What stands at a path; on the way a list is all its items."""
    level: list[Any] = [values]
    for part in map(_plain, path.split(".")):
        below: list[Any] = []
        while level:
            one = level.pop()
            if isinstance(one, list):
                level.extend(one)
            elif isinstance(one, dict):
                below.extend(v for name, v in one.items() if _plain(name) == part)
        level = below
    return level


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, names in it included; what is no text as JSON."""
    level = [value]
    while level:
        one = level.pop()
        if isinstance(one, dict) and one:
            level.extend(one)
            level.extend(one.values())
        elif isinstance(one, list):
            level.extend(one)
        else:
            yield one if isinstance(one, str) else canonical(one)


def _stars(entry: str) -> tuple[str, bool, bool]:
    before, behind = entry.startswith("*"), entry.endswith("*")
    return entry.strip("*"), before, behind


def _fits(entry: str, text: str) -> bool:
    """Whether a whole text is what an entry says, to the character."""
    core, before, behind = _stars(entry)
    if not (before or behind):
        return text == core
    if before and behind:
        place = text.find(core)
    else:
        place = 0 if behind else len(text) - len(core)
        if place < 0 or not text.startswith(core, place):
            return False
    rest = text[: max(place, 0)] + text[max(place, 0) + len(core) :]
    return place >= 0 and ".." not in rest and rest.isprintable()


def _stands(entry: str, text: str) -> bool:
    """Whether an entry stands in a plain text, as whole words but at its stars."""
    core, before, behind = _stars(entry)
    core = _plain(core)
    if not core:
        return True
    place = text.find(core)
    while place >= 0:
        end = place + len(core)
        whole = before or not _one_word(text[place - 1 : place + 1])
        if whole and (behind or not _one_word(text[end - 1 : end + 1])):
            return True
        place = text.find(core, place + 1)
    return False


def _one_word(pair: str) -> bool:
    """Whether two neighbours belong to one word; Chinese has none that end."""
    return len(pair) == 2 and pair.isalnum() and not EASTERN.search(pair)


def _plain(text: str) -> str:
    """A text as it is read: width, case, accents and unseen characters aside."""
    if not text.isascii():
        text = UNSEEN.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFKC", text)
    if not text.isprintable():
        text = "".join(one for one in text if one.isprintable() or one.isspace())
    return " ".join(text.casefold().split())
