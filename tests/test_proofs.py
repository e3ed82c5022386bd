from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = "from tests.proofs import pytest_configure\n"
INI = "[pytest]\nmarkers = proof(name): ...\naddopts = --strict-markers\n"
HEAD = "import pytest\n"
PROOF = HEAD + "@pytest.mark.proof('kills')\n"
PASSES = "def test_one(): pass\n"
SKIPS = "def test_one(): pytest.skip('no fork here')\n"
SKIPPED_WHOLE = "import pytest\npytest.skip('not here', allow_module_level=True)\n"


def run(
    folder: Path, text: str, *options: str, **environment: str
) -> tuple[int, list[str]]:
    """Run a file of tests under the plugin: its exit status and its complaints."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_it.py").write_text(text)
    bare = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "PERDURE_PROOFS", "PYTEST_ADDOPTS")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**bare, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    lines = done.stdout.splitlines()
    return done.returncode, [line for line in lines if line.startswith("NO PROOF")]


def test_a_proof_that_passes_is_enough(tmp_path: Path) -> None:
    assert run(tmp_path, PROOF + PASSES, PERDURE_PROOFS="kills") == (0, [])


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (SKIPS, ()),
        ("@pytest.mark.skipif(True, reason='no')\n" + PASSES, ()),
        ("@pytest.mark.xfail\ndef test_one(): assert False\n", ()),
        (PASSES + "def test_two(): pass\n", ("-k", "two")),
    ],
    ids=["skip", "skipif", "xfail", "deselected"],
)
def test_a_proof_that_did_not_run_fails_a_run_that_counts(
    tmp_path: Path, body: str, options: tuple[str, ...]
) -> None:
    status, said = run(tmp_path, PROOF + body, *options, CI="true")
    assert (status, len(said)) == (1, 1)
    assert said[0].startswith("NO PROOF: test_it.py::test_one was ")
    assert said[0].endswith("and proves: kills")


def test_a_file_of_proofs_that_skips_itself_fails_a_run_that_counts(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_other.py").write_text(PASSES)
    status, said = run(tmp_path, SKIPPED_WHOLE + PROOF + PASSES, CI="true")
    assert status == 1
    assert said == ["NO PROOF: test_it.py was skipped whole, and has proofs"]


def test_a_proof_that_is_wanted_and_nowhere_fails_the_run(tmp_path: Path) -> None:
    status, said = run(tmp_path, PROOF + PASSES, PERDURE_PROOFS="kills cuts")
    assert status == 1
    assert said == ["NO PROOF: no test marked proof('cuts') has passed"]


def test_a_skip_without_the_mark_is_allowed(tmp_path: Path) -> None:
    text = HEAD + SKIPS + "def test_two(): pass\n"
    assert run(tmp_path, text, CI="true") == (0, [])


def test_where_it_does_not_count_a_proof_may_be_skipped(tmp_path: Path) -> None:
    assert run(tmp_path, PROOF + SKIPS) == (0, [])


def test_the_runs_that_count_want_proofs_that_are_there() -> None:
    for line in (ROOT / ".ci" / "run").read_text().splitlines():
        if line.startswith("export PERDURE_PROOFS="):
            wanted = set(line.partition("=")[2].strip('"').split())
    marks = {
        line.split('proof("')[1].split('"')[0]
        for path in (ROOT / "tests").rglob("test_*.py")
        for line in path.read_text().splitlines()
        if line.lstrip().startswith(("@pytest.mark.proof(", "pytestmark = "))
        and 'proof("' in line
    }
    assert wanted == marks
