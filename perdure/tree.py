"""The supervision tree, as data. Read it top down: what restarts what.

root            rest_for_one, 3 restarts in 60 s
├─ journal      if it dies, everything above it restarts from disk
├─ services     one_for_one, 5 in 60 s: pool, windows, memory, timers, admission
└─ tasks        dynamic
└─ task/<id>  rest_for_one, ends when Task ends: Ledger, Account, Context, Task
"""

from __future__ import annotations

from .actors import names
from .actors.admission.actor import Admission
from .actors.agent import absent
from .actors.budget.actor import Account
from .actors.budget.pool import Pool
from .actors.context.actor import Context
from .actors.house import House
from .actors.journal.actor import JournalActor
from .actors.ledger.actor import Ledger
from .actors.memory.actor import Memory
from .actors.task.actor import Task
from .actors.task.rows import Wake
from .actors.timers.actor import Timers
from .actors.windows.actor import Windows
from .supervision.backoff import Backoff
from .supervision.spec import ChildSpec, SupervisorSpec
from .supervision.supervisor import Supervisor

__all__ = ["family_spec", "root_spec"]


def root_spec(house: House) -> SupervisorSpec:
    """The whole runtime."""
    rules = house.baseline
    backoff = Backoff(first=rules.backoff_first, limit=rules.backoff_limit)
    services = SupervisorSpec(
        strategy="one_for_one",
        intensity=5,
        period=60.0,
        backoff=backoff,
        children=(
            ChildSpec(
                name=names.POOL,
                factory=lambda: Pool(house, house.journal.runtime_epoch),
            ),
            ChildSpec(
                name=names.WINDOWS,
                factory=lambda: Windows(house, house.journal.runtime_epoch),
            ),
            ChildSpec(
                name=names.MEMORY,
                factory=lambda: Memory(house, house.journal.runtime_epoch),
            ),
            ChildSpec(name=names.TIMERS, factory=lambda: Timers(house)),
            ChildSpec(
                name=names.ADMISSION,
                factory=lambda: Admission(
                    house,
                    house.journal.runtime_epoch,
                    lambda *wanted: family_spec(house, backoff, *wanted),
                ),
            ),
        ),
    )
    tasks = SupervisorSpec(strategy="dynamic", intensity=None, backoff=backoff)
    return SupervisorSpec(
        strategy="rest_for_one",
        intensity=3,
        period=60.0,
        backoff=backoff,
        children=(
            ChildSpec(
                name=names.JOURNAL,
                factory=lambda: JournalActor(house),
                start_timeout=None,  # it waits for a store that cannot be opened
            ),
            _supervisor(names.SERVICES, services),
            _supervisor(names.TASKS, tasks),
        ),
    )


def family_spec(
    house: House, backoff: Backoff, task: str, epoch: int, agent_name: str, wake: Wake
) -> ChildSpec:
    """One task's actors; admission is asked before a restart, parking is the limit."""
    agent = house.agents.get(agent_name) or absent(agent_name)
    family = SupervisorSpec(
        strategy="rest_for_one",
        intensity=None,
        backoff=backoff,
        gate=names.ADMISSION,
        auto_shutdown="any_significant",
        children=(
            ChildSpec(
                name=names.ledger(task),
                factory=lambda: Ledger(house, task, epoch, agent, wake.loads),
            ),
            ChildSpec(
                name=names.account(task),
                factory=lambda: Account(house, task, epoch, wake.loads),
            ),
            ChildSpec(name=names.context(task), factory=lambda: Context(house, agent)),
            ChildSpec(
                name=names.task(task),
                factory=lambda: Task(house, task, epoch, agent, wake),
                restart="transient",
                significant=True,
            ),
        ),
    )
    return ChildSpec(
        name=names.family(task),
        factory=lambda: Supervisor(family),
        restart="temporary",
        shutdown=None,
        start_timeout=None,
    )


def _supervisor(name: str, spec: SupervisorSpec) -> ChildSpec:
    return ChildSpec(
        name=name,
        factory=lambda: Supervisor(spec),
        shutdown=None,
        start_timeout=None,
    )
