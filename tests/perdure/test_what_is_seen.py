"""README's table of what a model sees, held against what a request is made from."""

from __future__ import annotations

from pathlib import Path

from perdure.actors.agent import FixedLayer
from perdure.actors.context.render import TaskView

README = Path(__file__).parents[2] / "README.md"
HEAD = "| what | lives in | written by | the model sees it |"
ROWS = {  # what a request is made from, and the row that says where it comes from
    "instructions": "role and rules",
    "tools": "tools",
    "goal": "goal",
    "constraints": "constraints",
    "inputs": "inputs",
    "knowledge": "core facts",
    "steps": "plan",
    "plan": "plan",
    "steering": "words of people",
    "current": "progress",
    "facts": "progress",
    "claims": "anchors",
    "operations": "evidence",
    "findings": "findings",
    "notes": "notes",
    "failures": "failures",
    "uncertain": "progress",
    "next": "progress",
    "adrift": "drift",
    "summary": "summaries",
}


def table() -> list[list[str]]:
    lines = README.read_text(encoding="utf-8").splitlines()
    rows: list[list[str]] = []
    for line in lines[lines.index(HEAD) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_each_kind_of_information_has_one_place_a_writer_and_a_time() -> None:  # A32
    assert all(len(row) == 4 and all(row) for row in table())
    kinds = [row[0] for row in table()]
    for name in (*FixedLayer.__struct_fields__, *TaskView.__struct_fields__):
        assert sum(ROWS[name] in kind for kind in kinds) == 1, name
