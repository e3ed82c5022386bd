"""What users get: one wheel, one top-level name, and a cheap, silent import."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IMPORT_COST = 0.3  # seconds of CPU
IMPORT_EVERYTHING = """
import importlib, json, pkgutil, perdure
found = [m.name for m in pkgutil.walk_packages(perdure.__path__, "perdure.")]
others = {"perdure.testing.fixtures": "pytest", "perdure.storage.postgres": "psycopg"}
for name in found:
    needs = [module for begins, module in others.items() if name.startswith(begins)]
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # what is for an extra, or for pytest, alone
        assert [error.name] == needs, name
print(json.dumps([perdure.__file__, found]))
"""
IMPORT_ONCE = """
import sys, threading, time, logging
before = set(sys.modules), time.process_time()
import perdure
cost = time.process_time() - before[1]
import json
sys.stderr.write(json.dumps({
    "cost": cost,
    "modules": sorted(set(sys.modules) - before[0]),
    "threads": threading.active_count(),
    "handlers": len(logging.root.handlers) + len(logging.getLogger("perdure").handlers),
}))
"""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return Path(run(sys.executable, ROOT / ".ci" / "wheel.py", folder).strip())


@pytest.mark.timeout(300)
def test_the_wheel_brings_only_the_name_perdure(wheel: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    packages = {name for name in names if not name.endswith(".dist-info")}
    assert packages == {"perdure"}


@pytest.mark.timeout(300)
def test_the_wheel_holds_every_module_of_the_rooms(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    rooms = {
        "perdure": "perdure",
        "actors": "perdure/actors",
        "supervision": "perdure/supervision",
        "storage": "perdure/storage",
    }
    expected = {
        f"{target}/{path.relative_to(ROOT / room)}"
        for room, target in rooms.items()
        for path in (ROOT / room).rglob("*.py")
    }
    assert expected - inside == set()
    assert "perdure/py.typed" in inside


@pytest.mark.timeout(300)
def test_the_wheel_carries_its_licence(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (licence,) = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.timeout(300)
def test_every_module_imports_with_the_core_dependencies_alone(
    wheel: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    python = venv / "bin" / "python"
    run(*pip, "--python", python, "install", "--quiet", wheel)
    where, modules = json.loads(
        run(python, "-I", "-c", IMPORT_EVERYTHING, cwd=tmp_path)
    )
    assert Path(where).is_relative_to(venv)
    assert "perdure.actors" in modules


def import_perdure() -> tuple[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_ONCE],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, json.loads(done.stderr)


def test_import_prints_nothing_starts_no_thread_and_configures_no_logging() -> None:
    printed, facts = import_perdure()
    assert printed == ""
    assert facts["threads"] == 1
    assert facts["handlers"] == 0


def test_import_takes_no_optional_extra() -> None:
    _, facts = import_perdure()
    modules = facts["modules"]
    assert isinstance(modules, list)
    loaded = {str(name).split(".")[0] for name in modules}
    assert "perdure" in loaded
    assert (
        loaded
        & {
            "openai",
            "genai_prices",
            "airportsdata",
            "aiosmtpd",
            "hypothesis",
            "pytest",
        }
        == set()
    )


def test_import_is_cheap() -> None:
    # The least of three: the cost is ours, the rest is the machine's.
    costs = [import_perdure()[1]["cost"] for _ in range(3)]
    assert min(float(str(cost)) for cost in costs) < IMPORT_COST
