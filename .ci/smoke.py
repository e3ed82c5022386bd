"""Imports every module of the installed perdure and uses each dependency once.

Run by `make check` on the lower bounds of pyproject.toml. Raises on the first trouble.
"""

from __future__ import annotations

import importlib
import pkgutil

import apsw

import perdure

NEEDS_PYTEST = "perdure.testing.fixtures"  # whoever loads it has it
WAL_RESET_FIXED = (3, 51, 3)  # SQLite's release notes: the WAL-reset bug


def modules() -> list[str]:
    found = [
        module.name for module in pkgutil.walk_packages(perdure.__path__, "perdure.")
    ]
    return ["perdure", *found]


def main() -> None:
    for name in modules():
        if not name.endswith("__main__") and name != NEEDS_PYTEST:
            importlib.import_module(name)
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < WAL_RESET_FIXED:
        raise SystemExit(f"apsw carries SQLite {version}, which has the WAL-reset bug")
    print(f"smoke: {len(modules())} modules, SQLite {apsw.sqlite_lib_version()}")


if __name__ == "__main__":
    main()
