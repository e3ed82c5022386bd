"""The report job as data: goal, inputs, and seven steps that each end in a check."""

from __future__ import annotations

from typing import Any

import msgspec

from ..actors.plan.step import Plan, Step
from .acceptance import make_acceptance
from .workplace import CSV_REPORT, MARKDOWN_REPORT, Workplace

__all__ = ["CONSTRAINTS", "INSTRUCTIONS", "STEPS", "goal", "inputs", "make_plan"]

INSTRUCTIONS = (
    "You work on one step at a time. Call tools to find out or to act; when the step's "
    "criterion is met, answer with the step's result as one JSON object and nothing "
    "else. Use the confirmed facts of earlier steps; never guess a figure."
)
CONSTRAINTS = (
    "Only what the database says goes into a report.",
    "The operator gets one mail.",
)

# Each id is also the name of the step's acceptance function (acceptance.py) and of the
# scripted model's part (job.py).
STEPS: tuple[Step, ...] = (
    Step(
        id="survey",
        goal="Find the table of airports and what it holds.",
        done='result {"table", "columns", "rows"}: its name, its columns in order, '
        "its number of rows",
    ),
    Step(
        id="collect",
        goal="Count the airports of the country.",
        done='result {"country", "airports"}: as many as the database has, at least 1',
    ),
    Step(
        id="check",
        goal="Check the country's data for gaps and impossible coordinates.",
        done='result {"airports", "without_region", "without_iata", '
        '"latitude": [min, max], "longitude": [min, max]}',
    ),
    Step(
        id="group",
        goal="Group the country's airports by region.",
        done='result {"regions": [[region, airports, highest elevation], ...], '
        '"airports"}: every region once, the numbers sum to all airports',
    ),
    Step(
        id="export",
        goal=f"Write {CSV_REPORT} with all airports of the country, ordered by region "
        "and code, with columns icao and region among others.",
        done="result as write_report gave it: each airport is one row",
    ),
    Step(
        id="summarize",
        goal=f"Write {MARKDOWN_REPORT}: a title with the country, the check's "
        "findings, and a table of region, airports, highest elevation with a total.",
        done="result as write_report gave it: every region has its row "
        "| region | airports | highest |, the last is | total | airports |  |",
    ),
    Step(
        id="send",
        goal=f"Mail {CSV_REPORT} and {MARKDOWN_REPORT} to the operator, once; the "
        "mail names both.",
        done="result as send_mail gave it: both files are attached as they are",
    ),
)


def goal(country: str) -> str:
    """The user's words."""
    return (
        f"Export the airports of {country}, check the data, group them by region, "
        f"write {MARKDOWN_REPORT} and {CSV_REPORT}, and mail the report once to the "
        "operator."
    )


def inputs(country: str, operator: str) -> dict[str, Any]:
    """The task's parameters: an ISO 3166 country code and a mail address."""
    return {"country": country, "operator": operator}


def make_plan(place: Workplace) -> Plan:
    """The steps, each with its acceptance function for this workplace."""
    accept = make_acceptance(place)
    return Plan(
        steps=tuple(
            msgspec.structs.replace(step, accept=accept[step.id]) for step in STEPS
        )
    )
