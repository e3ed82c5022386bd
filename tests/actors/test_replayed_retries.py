"""What a model was asked around a retry is rendered again, byte for byte."""

from __future__ import annotations

from perdure import ask
from perdure.actors.events import PlanChecked, StepRetried, StepStarted
from tests.actors.test_planning import KEEP, Model, agent, ended_well, host, look, place
from tests.actors.test_questions import COLOUR
from tests.actors.world import House, follow

FAILS = {"s0": [[("look", {"what": "shut"}), ("ask", COLOUR)]]}


def test_a_look_at_the_plan_behind_a_retry_is_rendered_as_it_was_asked() -> None:
    # P4: what the step had brought is no fact any more, there as here.
    model = Model(KEEP, work=follow(FAILS))
    house = House(
        agent(model, plan=host("s0", "s1"), tools=[look, ask], recovery="rules")
    )
    task = house.submit()
    assert house.finish(task.id).reason == "question"
    task.retry("s0")
    house.finish(task.id)
    retried = place(house, task.id, StepRetried)
    looked = place(house, task.id, PlanChecked)
    starts = [
        n
        for n, one in enumerate(house.events(f"task/{task.id}"))
        if isinstance(one, StepStarted)
    ]
    assert starts[0] < retried < looked < starts[1]
    ended_well(house, task.id)
