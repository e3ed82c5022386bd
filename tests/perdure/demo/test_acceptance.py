from __future__ import annotations

import copy
import shutil
from typing import Any

import msgspec
import pytest

from perdure.demo.acceptance import make_acceptance
from perdure.demo.job import table_row
from perdure.demo.mail import MailServer
from perdure.demo.plan import STEPS
from perdure.demo.tools import described, make_tools
from perdure.demo.workplace import Workplace


def judge(bench: Any, place: Workplace, step: str, result: Any) -> bool | str:
    return make_acceptance(place)[step](result, bench.look(step))


def replaced(result: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(result)
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return changed


def test_every_step_has_an_acceptance_function(place: Workplace) -> None:
    assert {step.id for step in STEPS} | {"job"} == set(make_acceptance(place))
    assert len(STEPS) >= 6


@pytest.mark.parametrize(
    ("step", "path", "value"),
    [
        ("survey", ("table",), "countries"),
        ("survey", ("columns", 0), "code"),
        ("survey", ("rows",), -1),
        ("collect", ("country",), "SE"),
        ("collect", ("airports",), -1),
        ("check", ("airports",), -1),
        ("check", ("without_region",), -1),
        ("check", ("without_iata",), -1),
        ("check", ("latitude", 1), 91.0),
        ("check", ("longitude", 0), -181.0),
        ("group", ("regions", 0, 0), "Atlantis"),
        ("group", ("regions", 0, 1), -1),
        ("group", ("airports",), -1),
        ("export", ("file",), "report.md"),
        ("export", ("rows",), -1),
        ("export", ("sha256",), "0" * 64),
        ("summarize", ("sha256",), "0" * 64),
        ("send", ("to",), "somebody@example.org"),
        ("send", ("attachments", 0, "file"), "other.csv"),
        ("send", ("attachments", 1, "sha256"), "0" * 64),
    ],
)
def test_a_result_that_says_something_wrong_is_refused(
    bench: Any, place: Workplace, step: str, path: tuple[Any, ...], value: Any
) -> None:
    wrong = replaced(bench.results[step], path, value)
    assert isinstance(judge(bench, place, step, wrong), str)


def test_a_missing_region_is_named(bench: Any, place: Workplace) -> None:
    result = copy.deepcopy(bench.results["group"])
    (region, _, _) = result["regions"].pop()
    verdict = judge(bench, place, "group", result)
    assert verdict == f"regions are missing: {region}"


@pytest.mark.parametrize(
    ("step", "name"), [("export", "report.csv"), ("summarize", "report.md")]
)
def test_a_file_that_is_not_there_is_refused(
    bench: Any, place: Workplace, step: str, name: str
) -> None:
    place.report(name).unlink()
    verdict = judge(bench, place, step, bench.results[step])
    assert verdict == f"{name} was not written"


def rewrite(bench: Any, place: Workplace, step: str, old: str, new: str) -> Any:
    """Change the step's file, and have the result describe it truly."""
    result = bench.results[step]
    path = place.report(result["file"])
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return result | described(path.name, path.read_bytes())


def test_a_title_of_another_country_is_refused(bench: Any, place: Workplace) -> None:
    result = rewrite(bench, place, "summarize", "of NO", "of SE")
    verdict = judge(bench, place, "summarize", result)
    assert verdict == "the title does not name the country"


def test_a_wrong_row_of_the_table_is_named(bench: Any, place: Workplace) -> None:
    region, airports, highest = bench.results["group"]["regions"][-1]
    right = table_row(region, airports, highest)
    wrong = table_row(region, airports + 1, highest)
    result = rewrite(bench, place, "summarize", right, wrong)
    verdict = judge(bench, place, "summarize", result)
    assert verdict == f"the table has no right row for {region}"


def test_a_wrong_total_is_refused(bench: Any, place: Workplace) -> None:
    total = bench.results["collect"]["airports"]
    right, wrong = (table_row("total", number, None) for number in (total, total - 1))
    result = rewrite(bench, place, "summarize", right, wrong)
    verdict = judge(bench, place, "summarize", result)
    assert verdict == "the table has no right total"


def test_a_row_in_another_region_is_refused(bench: Any, place: Workplace) -> None:
    first, *_, last = (f",{row[0]}," for row in bench.results["group"]["regions"])
    result = rewrite(bench, place, "export", last, first)
    verdict = judge(bench, place, "export", result)
    assert str(verdict).startswith("rows by region:")


def test_an_airport_that_stands_there_twice_is_refused(
    bench: Any, place: Workplace
) -> None:
    _, first, second, *_ = place.report("report.csv").read_text("utf-8").splitlines()
    code, other = first.split(",")[0], second.split(",")[0]
    result = rewrite(bench, place, "export", f"{code},", f"{other},")
    verdict = judge(bench, place, "export", result)
    assert str(verdict).startswith("codes:")


def send(place: Workplace, result: Any, body: str, names: list[str]) -> None:
    """Send another mail than the job's, into an empty store."""
    with MailServer(place.mail_store) as server:
        moved = msgspec.structs.replace(place, smtp_port=server.port)
        tool = next(tool for tool in make_tools(moved) if tool.name == "send_mail")
        tool(result["to"], result["subject"], body, names, request_id="another")


def test_a_mail_that_the_server_did_not_keep_is_refused(
    bench: Any, place: Workplace, tmp_path: Any
) -> None:
    (tmp_path / "empty").mkdir()
    elsewhere = msgspec.structs.replace(place, mail_store=str(tmp_path / "empty"))
    verdict = judge(bench, elsewhere, "send", bench.results["send"])
    assert verdict == "the mail server kept no such mail"


def test_a_mail_that_does_not_name_the_file_is_refused(
    bench: Any, place: Workplace
) -> None:
    shutil.rmtree(place.mail_store)
    result = bench.results["send"]
    send(place, result, "See attachments.\n", ["report.csv", "report.md"])
    verdict = judge(bench, place, "send", result)
    assert verdict == "the mail does not name report.csv"


def test_a_mail_that_carries_something_else_is_not_taken_for_it(
    bench: Any, place: Workplace
) -> None:
    shutil.rmtree(place.mail_store)
    result = bench.results["send"]
    send(place, result, "See report.csv.\n", ["report.csv"])
    verdict = judge(bench, place, "send", result)
    assert verdict == "the mail server kept no such mail"


def test_the_job_is_refused_when_a_file_changed_after_its_step(
    bench: Any, place: Workplace
) -> None:
    accept = make_acceptance(place)["job"]
    view = msgspec.structs.replace(bench.look("send"), step="", facts=bench.results)
    assert accept(bench.results["send"], view) is True
    place.report("report.md").write_text("# Airports of NO\n")
    assert accept(bench.results["send"], view) == (
        "report.md is not what step summarize wrote"
    )


@pytest.mark.parametrize("step", [step.id for step in STEPS])
@pytest.mark.parametrize("result", ["I am done.", None, {}, []], ids=repr)
def test_a_result_of_another_shape_is_no_pass(
    bench: Any, place: Workplace, step: str, result: Any
) -> None:
    with pytest.raises((TypeError, KeyError)):
        judge(bench, place, step, result)
