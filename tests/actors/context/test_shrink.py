"""A newest exchange that alone overflows is shown as a reference, not refused."""

from __future__ import annotations

import pytest

from perdure.actors.context.layers import Block, Window
from perdure.actors.context.references import reference
from perdure.actors.context.shrink import assemble_shrinking
from perdure.actors.errors import ContextBudgetError


def block(number: int, *texts: str) -> Block:
    calls = [
        {
            "id": f"{number}.{place}",
            "type": "function",
            "function": {"name": "read", "arguments": "{}"},
        }
        for place in range(len(texts))
    ]
    return Block(
        id=number,
        layer="scratch",
        origin="model",
        messages=(
            {"role": "assistant", "content": None, "tool_calls": calls},
            *(
                {"role": "tool", "tool_call_id": f"{number}.{place}", "content": text}
                for place, text in enumerate(texts)
            ),
        ),
    )


def assembled(*scratch: Block, limit: int = 16_000, goal: str = "export"):  # type: ignore[no-untyped-def]  # noqa: ANN201
    def one(layer: str, role: str, text: str) -> Block:
        message = {"role": role, "content": text}
        return Block(id=0, layer=layer, origin="task", messages=(message,))  # type: ignore[arg-type]

    return assemble_shrinking(
        [one("fixed", "system", "rules")],
        [one("task", "user", goal)],
        scratch,
        one("task", "user", "now"),
        [],
        limit=limit,
        window=Window(),
    )


def test_a_result_of_20000_characters_becomes_a_reference() -> None:
    # The fitter's last case: reference mode.
    made = assembled(block(1, "a" * 10_000 + "z" * 10_000))
    text = made.messages[3]["content"]
    assert text.startswith("a" * 2_000)
    assert text.endswith("z" * 1_000)
    assert "20000 characters" in text
    assert made.report.after <= 16_000


def test_parallel_results_are_shrunk_until_all_fit() -> None:
    made = assembled(block(1, *(str(n) * 9_000 for n in range(8))))
    assert made.report.after <= 16_000
    assert len(made.messages) == 2 + 1 + 8 + 1


def test_what_fits_is_left_as_it_is() -> None:
    made = assembled(block(1, "x" * 9_000))
    assert made.messages[3]["content"] == "x" * 9_000


def test_a_goal_that_does_not_fit_is_still_refused() -> None:
    with pytest.raises(ContextBudgetError):
        assembled(block(1, "x" * 20_000), goal="g" * 16_000)


def test_the_same_input_gives_the_same_bytes() -> None:
    first = assembled(block(1, "x" * 20_000))
    assert first.digest == assembled(block(1, "x" * 20_000)).digest


def test_a_short_text_is_its_own_reference() -> None:
    assert reference("short", 5) == "short"
