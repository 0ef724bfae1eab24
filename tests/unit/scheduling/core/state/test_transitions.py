"""Every pair of a status and a fact: what the fact makes of a job in that status, and that the table says so."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

import weft.scheduling.core
from support.builders import grid
from support.state_checks import check
from weft.model import (
    FACTS,
    AdminAction,
    Alarm,
    AllocationEnded,
    AllocationGranted,
    AllocationReleased,
    AllocationRequested,
    BatchLimited,
    Blocked,
    Cancelled,
    Continued,
    Cordoned,
    Deployed,
    DrainReplica,
    Edited,
    Evicted,
    Exited,
    Fact,
    Gpu,
    GroupLimited,
    Held,
    Job,
    JobReport,
    JobSnapshot,
    KeyChanged,
    Limited,
    Measured,
    Move,
    Node,
    NodeEndChanged,
    NodeJoined,
    NodeLost,
    Paused,
    Planned,
    Pool,
    PoolAdded,
    PoolChanged,
    PoolPaused,
    PoolRemoved,
    PoolResumed,
    PoolSnapshot,
    Profile,
    Profiled,
    Progressed,
    Purged,
    Ready,
    Released,
    ReplicaDrained,
    Reported,
    Reserve,
    Resized,
    Resumed,
    Rewoven,
    RolledBack,
    Service,
    ServiceSnapshot,
    Start,
    Started,
    StateSnapshot,
    Stop,
    Submitted,
    Suspended,
    Team,
    TeamRemoved,
    TeamSet,
    Unblocked,
    Uncordoned,
    Undeployed,
    Unready,
    Unwoven,
    Use,
    Used,
    Wake,
)
from weft.model.status import Status
from weft.scheduling.core.state.state import State
from weft.scheduling.core.state.transitions import TRANSITIONS, Cause

STATUSES: tuple[Status, ...] = get_args(Status)
ON = (("n0", (0,)),)
FIRST = Submitted(0, Job("first"))
START, STARTED = Start(1, "a", 1, ON), Started(2, "a", 1)
STOP = Stop(3, "a", 1, "preempted")
POOL = Pool("p", "slurm", 2, 4, 3600.0)

TO: dict[str, tuple[Fact, ...]] = {
    "blocked": (FIRST, Submitted(0, Job("a", after=("first",)))),
    "waiting": (FIRST, Submitted(0, Job("a"))),
    "held": (FIRST, Submitted(0, Job("a")), Held(1, "a")),
    "starting": (FIRST, Submitted(0, Job("a")), START),
    "running": (FIRST, Submitted(0, Job("a")), START, STARTED),
    "stopping": (FIRST, Submitted(0, Job("a")), START, STARTED, STOP),
    "done": (FIRST, Submitted(0, Job("a")), START, Exited(3, "a", 1, "done")),
    "failed": (FIRST, Submitted(0, Job("a")), START, Exited(3, "a", 1, "failed")),
    "cancelled": (FIRST, Submitted(0, Job("a")), Cancelled(1, "a")),
}
"""The facts by which a job comes to each status."""

BY: dict[str, Callable[[State], Fact]] = {
    "NodeJoined": lambda _: NodeJoined(9, Node("n9", (Gpu(),))),
    "NodeLost": lambda _: NodeLost(9, "n0"),
    "NodeEndChanged": lambda _: NodeEndChanged(9, "n0", 900),
    "Blocked": lambda _: Blocked(9, "n0", 1, "ForeignProcess"),
    "Unblocked": lambda _: Unblocked(9, "n0", 1, "ForeignProcess"),
    "Cordoned": lambda _: Cordoned(9, "n0", "Drained"),
    "Uncordoned": lambda _: Uncordoned(9, "n0", "Drained"),
    "Limited": lambda _: Limited(9, "", 0),
    "GroupLimited": lambda _: GroupLimited(9, "", 0),
    "TeamSet": lambda _: TeamSet(9, Team("vision", 4)),
    "TeamRemoved": lambda _: TeamRemoved(9, "vision"),
    "BatchLimited": lambda _: BatchLimited(9, "b", 1),
    "Submitted": lambda _: Submitted(9, Job("a")),
    "Edited": lambda _: Edited(9, Job("a")),
    "Edited, comes after another": lambda _: Edited(9, Job("a", after=("first",))),
    "Cancelled": lambda _: Cancelled(9, "a"),
    "Cancelled, the one before it": lambda _: Cancelled(9, "first"),
    "Evicted": lambda _: Evicted(9, "a", 1),
    "Held": lambda _: Held(9, "a"),
    "Released": lambda _: Released(9, "a"),
    "Suspended": lambda _: Suspended(9, "a", 1),
    "Continued": lambda _: Continued(9, "a", 1),
    "Purged": lambda _: Purged(9, ()),
    "Paused": lambda _: Paused(9),
    "Resumed": lambda _: Resumed(9),
    "Started": lambda _: Started(9, "a", 1),
    "Progressed": lambda _: Progressed(9, "a", 1, 5.0),
    "Reported": lambda _: Reported(9, "a", JobReport(1, 5, 10, (("loss", 0.5),))),
    "Measured": lambda _: Measured(9, "a", 1, 100),
    "Profiled": lambda _: Profiled(9, "bert", 1, "", Profile("bert", 1.0, 0.5, 0.5, 0.0), "run"),
    "Rewoven": lambda _: Rewoven(9, "a", 1, ("a", "first")),
    "Used": lambda _: Used(9, "a", 1, Use(cpu_s=1.0)),
    "Unwoven": lambda _: Unwoven(9, "a", 1, "hangs"),
    "done": lambda _: Exited(9, "a", 1, "done"),
    "failed": lambda _: Exited(9, "a", 1, "failed"),
    "stopped": lambda _: Exited(9, "a", 1, "stopped"),
    "lost": lambda _: Exited(9, "a", 1, "lost"),
    "requeued": lambda _: Exited(9, "a", 1, "requeued"),
    "requeued for later": lambda _: Exited(9, "a", 1, "requeued", delay_s=60.0),
    "AdminAction": lambda _: AdminAction(9, "ann", "pause"),
    "Wake": lambda _: Wake(9),
    "Start": lambda state: Start(9, "a", state.jobs["a"].run + 1, ON),
    "Stop": lambda _: Stop(9, "a", 1, "preempted"),
    "Reserve": lambda _: Reserve(9, "a", ON),
    "KeyChanged": lambda _: KeyChanged(9, "a", 1.0),
    "Planned": lambda _: Planned(9),
    "Alarm": lambda _: Alarm(9, None),
    "Deployed": lambda _: Deployed(9, Service("chat", Job("chat"))),
    "Undeployed": lambda _: Undeployed(9, "chat"),
    "Ready": lambda _: Ready(9, "a", 1),
    "Unready": lambda _: Unready(9, "a", 1),
    "ReplicaDrained": lambda _: ReplicaDrained(9, "a", 1),
    "Resized": lambda _: Resized(9, "chat", 2),
    "DrainReplica": lambda _: DrainReplica(9, "a", 1),
    "RolledBack": lambda _: RolledBack(9, Service("chat", Job("chat"), version=3), "it never got ready"),
    "Move": lambda _: Move(9, "a", 1),
    "PoolAdded": lambda _: PoolAdded(9, POOL),
    "PoolChanged": lambda _: PoolChanged(9, POOL),
    "PoolRemoved": lambda _: PoolRemoved(9, "p"),
    "PoolPaused": lambda _: PoolPaused(9, "p"),
    "PoolResumed": lambda _: PoolResumed(9, "p"),
    "AllocationRequested": lambda _: AllocationRequested(9, "p", "p-0-k", "p-0"),
    "AllocationGranted": lambda _: AllocationGranted(9, "p", "p-0-k", "1"),
    "AllocationReleased": lambda _: AllocationReleased(9, "p", "p-0-k", "idle"),
    "AllocationEnded": lambda _: AllocationEnded(9, "p", "p-0-k", "COMPLETED"),
}
"""A fact of each class, and of each way a run ends."""

BECOMES: dict[str, dict[str, Status]] = {
    "NodeLost": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "Limited": {"waiting": "blocked"},
    "Submitted": {"done": "waiting", "failed": "waiting", "cancelled": "waiting"},
    "GroupLimited": {"waiting": "blocked"},
    "Edited": {"blocked": "waiting"},
    "Edited, comes after another": {"waiting": "blocked", "held": "blocked"},
    "Cancelled": {"blocked": "cancelled", "waiting": "cancelled", "held": "cancelled"},
    "Cancelled, the one before it": {"blocked": "cancelled"},
    "Held": {"waiting": "held"},
    "Released": {"held": "waiting"},
    "Started": {"starting": "running"},
    "Start": {"waiting": "starting"},
    "Stop": {"starting": "stopping", "running": "stopping"},
    "done": {"starting": "done", "running": "done", "stopping": "done"},
    "failed": {"starting": "failed", "running": "failed", "stopping": "waiting"},
    "stopped": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "lost": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "requeued": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "requeued for later": {"starting": "blocked", "running": "blocked", "stopping": "blocked"},
}
"""The status after the fact; every other pair leaves the status as it is."""


def state_after(*facts: Fact) -> State:
    state = State()
    for fact in (*(NodeJoined(0, each) for each in grid(2, 2)), *facts):
        assert state.apply(fact)
    check(state)
    return state


def test_the_facts_below_are_all_facts_and_the_statuses_all_statuses() -> None:
    made = {type(make(state_after(*TO["waiting"]))) for make in BY.values()}
    assert made | {JobSnapshot, StateSnapshot, ServiceSnapshot, PoolSnapshot} == set(FACTS)
    assert tuple(TO) == STATUSES


@pytest.mark.parametrize("status", TO)
@pytest.mark.parametrize("news", BY)
def test_every_pair_of_status_and_fact(status: str, news: str) -> None:
    state = state_after(*TO[status])
    assert state.jobs["a"].status == status
    state.apply(BY[news](state))
    assert state.jobs["a"].status == BECOMES.get(news, {}).get(status, status)
    check(state)


LATER: dict[str, tuple[tuple[Fact, ...], Status]] = {
    "a run that ends while its job is cancelled": (
        (Cancelled(4, "a"), Exited(5, "a", 1, "stopped")),
        "cancelled",
    ),
    "one that is done nevertheless": ((Cancelled(4, "a"), Exited(5, "a", 1, "done")), "done"),
    "a lost node while its job is being cancelled": ((Cancelled(4, "a"), NodeLost(5, "n0")), "cancelled"),
    "a run that ends while its job is held": ((Held(4, "a"), Exited(5, "a", 1, "stopped")), "held"),
    "a held job that must not begin yet": (
        (Held(4, "a"), Exited(5, "a", 1, "requeued", delay_s=9.0), Wake(20)),
        "held",
    ),
    "a delay that is over": ((Exited(5, "a", 1, "requeued", delay_s=9.0), Wake(20)), "waiting"),
    "a user's limit that is lifted": (
        (Exited(4, "a", 1, "stopped"), Limited(5, "", 0), Limited(6, "", None)),
        "waiting",
    ),
    "a stopped run of a group that was paused meanwhile": (
        (GroupLimited(4, "", None, paused=True), Exited(5, "a", 1, "stopped")),
        "blocked",
    ),
    "a delay that is over in a paused group": (
        (GroupLimited(4, "", None, paused=True), Exited(5, "a", 1, "requeued", delay_s=9.0), Wake(20)),
        "blocked",
    ),
    "a paused group that is resumed": (
        (GroupLimited(4, "", None, paused=True), Exited(5, "a", 1, "stopped"), GroupLimited(6, "", None)),
        "waiting",
    ),
}


@pytest.mark.parametrize(("facts", "status"), LATER.values(), ids=LATER)
def test_what_several_facts_make_of_a_running_job(facts: tuple[Fact, ...], status: Status) -> None:
    state = state_after(*TO["running"], *facts)
    assert state.jobs["a"].status == status


def test_a_failed_job_with_a_retry_left_waits_again() -> None:
    state = state_after(FIRST, Submitted(0, Job("a", retries=1)), START, Exited(3, "a", 1, "failed"))
    assert state.jobs["a"].status == "waiting"


def test_a_blocked_job_is_eligible_once_the_one_before_it_is_done() -> None:
    done = (Start(1, "first", 1, ON), Exited(3, "first", 1, "done"))
    assert state_after(*TO["blocked"], *done).jobs["a"].status == "waiting"
    assert state_after(*TO["blocked"], Held(1, "a"), *done).jobs["a"].status == "held"


def test_the_table_knows_only_statuses_and_ended_jobs_stay_as_they_are() -> None:
    assert set(TRANSITIONS) == set(get_args(Cause))
    for row in TRANSITIONS.values():
        assert row
        assert {*row, *row.values()} <= set(STATUSES)
        assert not {"done", "failed", "cancelled"} & set(row)


def test_no_other_code_assigns_the_status_of_a_job() -> None:
    root = Path(weft.scheduling.core.__path__[0])
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "status" and isinstance(node.ctx, ast.Store)
    }
    assert found == {"state/transitions.py", "state/job.py"}
