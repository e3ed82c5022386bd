"""Writing a whole file so that a kill or a power cut leaves all of it or none."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes, *, partial: Path) -> None:
    """Write `data` to `partial`, flush, rename it to `path`, flush the folder.

    `partial` lies in the same folder and has the same name at each repetition of one
    write, so that a repetition clears away what a killed one left.
    """
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
