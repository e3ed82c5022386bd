"""The house rules a machine can check: arrows, sizes, and what no module may do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 420  # lines; the house says about 400
TABLES = {"actors/events.py", "actors/protocol.py"}  # lists that a cut would hide
ROOMS = {
    "perdure": "perdure",
    "actors": "perdure.actors",
    "supervision": "perdure.supervision",
    "storage": "perdure.storage",
}
BELOW = {
    "perdure": {"perdure", "actors", "supervision", "storage"},
    "actors": {"actors", "supervision", "storage"},
    "supervision": {"supervision"},
    "storage": {"storage"},
}
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
SPEAKS_TO_A_PERSON = {"perdure/cli", "perdure/demo"}  # printing is their job


def files(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


def source_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> list[str]:
    room, *rest = path.relative_to(ROOT).with_suffix("").parts
    return [*ROOMS[room].split("."), *rest]


def imports(path: Path) -> Iterator[str]:
    """Yield the absolute name of everything that `path` imports."""
    module = module_of(path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                base = module[:-level] if level else []
                full = ".".join([*base, *([name] if name else [])])
                yield from (f"{full}.{one.name}" for one in names)


def room_of(name: str) -> str | None:
    """Return the room that an imported name lies in, None when it is not ours."""
    parts = name.split(".")
    if parts[0] != "perdure":
        return None
    below = {"actors", "supervision", "storage"}
    return parts[1] if len(parts) > 1 and parts[1] in below else "perdure"


@pytest.mark.parametrize("path", files(*ROOMS), ids=source_id)
def test_arrows_go_down_only(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    reached = {found for name in imports(path) if (found := room_of(name))}
    assert reached <= BELOW[room]


@pytest.mark.parametrize("path", files("actors/context", "actors/plan"), ids=source_id)
def test_budget_and_plan_know_nothing_of_storage(path: Path) -> None:  # A4
    assert not [name for name in imports(path) if room_of(name) == "storage"]


@pytest.mark.parametrize(
    "path", files("actors", "supervision", "storage"), ids=source_id
)
def test_rooms_import_each_other_relatively(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                absolute = [one.name for one in names if room_of(one.name)]
            case ast.ImportFrom(module=str(name), level=0):
                absolute = [name] if room_of(name) else []
            case _:
                absolute = []
        assert absolute == []


LIMITED = [path for path in files(*ROOMS, "bench") if source_id(path) not in TABLES]


@pytest.mark.parametrize("path", LIMITED, ids=source_id)
def test_a_file_holds_one_concept(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("path", files(*ROOMS), ids=source_id)
def test_nothing_is_pickled(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} & FORBIDDEN == set()


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", files(*ROOMS), ids=source_id)
def test_no_module_prints_evaluates_or_touches_the_hosts_process(path: Path) -> None:
    name = source_id(path)
    forbidden = {
        "eval",
        "exec",
        "logging.basicConfig",
        "structlog.configure",
        "pykka.ActorRegistry.stop_all",
    }
    if not any(name.startswith(spoken) for spoken in SPEAKS_TO_A_PERSON):
        forbidden |= {"print", "signal.signal"}
    assert set(calls(path)) & forbidden == set()


@pytest.mark.parametrize("path", files("tests"), ids=source_id)
def test_tests_import_what_users_import(path: Path) -> None:
    # The repository's root is on the path of the tests: `import storage` would work
    # there, as a second copy of every class.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                tops = {one.name.split(".")[0] for one in names}
            case ast.ImportFrom(module=str(name), level=0):
                tops = {name.split(".")[0]}
            case _:
                tops = set()
        assert tops & {"actors", "supervision", "storage"} == set()


MODULES = [path for path in files(*ROOMS) if path.name != "__main__.py"]


@pytest.mark.parametrize("path", MODULES, ids=source_id)
def test_a_module_says_what_it_hands_out(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = {
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
    }
    silent = all(
        isinstance(node, ast.Expr)
        or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        for node in tree.body
    )
    assert silent or "__all__" in assigned
