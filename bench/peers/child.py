"""A peer's process, as the parent sees it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Self

__all__ = ["Child"]

HERE = Path(__file__).resolve().parent


class Child:
    """Runs one peer's script, and gives it orders (see serving.py).

    Args:
        python: of the environment it runs in.
        script: beside this file.
        options: what its `make` is given.
    """

    def __init__(self, python: Path, script: str, options: dict[str, Any]) -> None:
        self._script = script
        self._process = subprocess.Popen(
            [python, HERE / script, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Give one order; return the answer.

        Raises RuntimeError where the process ended instead.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._script} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def die(self, operations: int) -> None:
        """Have it killed half-way through a task."""
        try:
            self.ask("die", operations=operations)
        except RuntimeError:
            if self._process.returncode == -9:
                return
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            try:
                self.ask("close")
                self._process.wait(60)
            except (RuntimeError, OSError, subprocess.TimeoutExpired):
                self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
