"""Finding by meaning: a host's embedding, and the nearest vectors. No download here."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import Misuse

__all__ = ["Vectors", "nearest", "unit_vectors"]

TIMEOUT = 10.0  # seconds
BATCH = 64  # texts of one call
EMBEDDED = 2_000  # characters of an episode that are embedded
DIMENSIONS = 8_192  # numbers of a vector, at most


class Vectors:
    """Has `recall` search by meaning, too.

    The texts of episodes are embedded when the record is first searched, the newest
    first, and kept in the index; a search waits at most `timeout` seconds for that, and
    goes on with the rest the next time. All vectors of the task in question are
    compared one by one, in plain Python: one of 384 numbers takes some 50 µs, so that
    this is good for 20,000 episodes of a task (one second). The rankings by words and
    by vectors are merged by reciprocal rank.

    Args:
        embed: turns a list of at most 64 texts into as many lists of numbers of one
            length. It is your code: it runs off the dispatcher, under a deadline. Where
            it raises, hangs or returns anything else, words alone decide, and
            ``recall.vectors_failed`` is logged.
        name: of the model. With another one all vectors are made anew.
        timeout: seconds that one call, and one search in all, waits for it.

    Raises:
        Misuse: naming the argument, the value and the fix.
    """

    def __init__(
        self,
        embed: Callable[[list[str]], Sequence[Sequence[float]]],
        *,
        name: str = "embed",
        timeout: float = TIMEOUT,
    ) -> None:
        if not callable(embed):
            raise Misuse(f"Vectors(embed={embed!r}): give a function of texts")
        if not isinstance(name, str) or not name:
            raise Misuse(f"Vectors(name={name!r}): name the embedding model")
        number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not number or not 0 < timeout < math.inf:
            raise Misuse(f"Vectors(timeout={timeout!r}): give seconds above 0")
        self.embed = embed
        self.name = name
        self.timeout = float(timeout)


def unit_vectors(made: Any, count: int) -> list[array[float]]:
    """Check what an embedding returned, and scale each vector to length 1.

    Raises ValueError or TypeError for anything but `count` vectors of one length, of
    finite numbers.
    """
    rows = [[float(one) for one in row] for row in made]
    if len(rows) != count:
        raise ValueError(f"{len(rows)} vectors for {count} texts")
    found = []
    for numbers in rows:
        if not 0 < len(numbers) <= DIMENSIONS or len(numbers) != len(rows[0]):
            raise ValueError(f"a vector of {len(numbers)} numbers")
        length = math.sqrt(sum(one * one for one in numbers))
        if not math.isfinite(length):
            raise ValueError("a vector that is not finite")
        found.append(array("f", (one / (length or 1.0) for one in numbers)))
    return found


def nearest(
    aim: array[float], vectors: Iterable[tuple[int, array[float]]], limit: int
) -> list[int]:
    """The ids of the `limit` vectors nearest to `aim` by cosine, the newest on ties.

    All have length 1. One of another size, or in no way alike, is left out.
    """
    size, found = len(aim), []
    for id_, vector in vectors:
        if len(vector) == size:
            likeness = sum(map(operator.mul, aim, vector))
            if likeness > 0:
                found.append((-round(likeness, 6), -id_))
    return [-id_ for _, id_ in sorted(found)[:limit]]
