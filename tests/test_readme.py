"""The README proves itself: its Python blocks run, in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(README.read_text(encoding="utf-8"))
CONFTEST = re.compile(r"^# conftest\.py: (.*)$", re.MULTILINE)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_of_the_readme_runs(number: int, tmp_path: Path) -> None:
    # A process each: a block may open a runtime, and must close it.
    block = BLOCKS[number]
    command = ["-c", block]
    if conftest := CONFTEST.search(block):
        (tmp_path / "conftest.py").write_text(conftest[1])
        (tmp_path / "test_block.py").write_text(block)
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_block.py"]
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_loop_prints_what_the_readme_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKS[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "completed\n"
    assert (tmp_path / "note").read_text() == "hi"
