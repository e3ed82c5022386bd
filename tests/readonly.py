"""Folders that nothing may be written to: mounted so, or of another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["WAYS", "Place", "place"]

ROOT = Path(__file__).parents[1]
NOBODY = 65_534
# Still user 0, who can run the tests' Python wherever it is, but with no more rights
# than those of the files' owner, group and others.
STRANGER = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
WAYS = ("mount", "stranger", "stranger in a writable folder")


class Place:
    """A folder of a store, and how others see it who may only read.

    Args:
        base: an empty folder that everybody may enter.
        way: a read-only mount of the folder, or another user, who may write the folder
            itself or not.
    """

    def __init__(self, base: Path, way: str) -> None:
        self.way = way
        self.folder = base / "store"  # where it may be written
        self.seen = base / "seen" if way == "mount" else self.folder
        self.temporary = base / "temporary"  # copies are made there
        for one in (self.folder, self.temporary):
            one.mkdir()
        self.temporary.chmod(0o777)
        self._as = [] if way == "mount" else STRANGER

    def show(self) -> None:
        """Let everybody read what is there now."""
        for one in (self.folder, *self.folder.rglob("*")):
            one.chmod(0o755 if one.is_dir() else 0o644)
            os.chown(one, NOBODY, NOBODY)
        if self.way == WAYS[2]:
            self.folder.chmod(0o777)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python as who may only read; temporary files have a folder of theirs."""
        return subprocess.run(
            [*self._as, sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def perdure(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command so."""
        return self.run("-m", "perdure", *words)

    def left(self) -> Sequence[str]:
        """What stands where copies were made."""
        return sorted(one.name for one in self.temporary.iterdir())


@contextmanager
def place(way: str) -> Iterator[Place]:
    """Such a folder; the test is skipped where this user cannot make one."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts folders, and runs what others would")
    with tempfile.TemporaryDirectory(prefix="perdure-place-") as name:
        base = Path(name)
        base.chmod(0o755)
        made = Place(base, way)
        if way != "mount":
            words = [*STRANGER, "true"]
            if (
                not shutil.which("setpriv")
                or subprocess.run(words, check=False).returncode
            ):
                pytest.skip("setpriv takes no rights away here")
            yield made
            return
        made.seen.mkdir()
        try:
            for how in (["--bind", str(made.folder)], ["-o", "remount,bind,ro"]):
                words = ["mount", *how, str(made.seen)]
                if subprocess.run(words, check=False, capture_output=True).returncode:
                    pytest.skip("this user may not mount a folder")
            yield made
        finally:
            subprocess.run(["umount", "-l", str(made.seen)], check=False)
            shutil.rmtree(made.temporary, ignore_errors=True)
