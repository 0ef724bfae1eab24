"""A guaranteed job starts whenever some set of runs can make room for it without a loss of any other guarantee."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from support.builders import Rig, node
from weft.model import Cancelled, Job, Stop, Task, Team, TeamSet, Where
from weft.scheduling.core.state.job import JobState

TEAMS = ("a", "b", "c")
MAX_RUNS = 9

sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)
holders = st.lists(st.integers(0, MAX_RUNS), min_size=12, max_size=12)
"""The run that holds each GPU; 0: none."""
owners = st.lists(st.sampled_from(("b", "b", "b", "c", "")), min_size=MAX_RUNS, max_size=MAX_RUNS)
guarantees = st.tuples(*[st.integers(0, 6)] * 2)


def covered_gpus(active: list[JobState], guarantee: int, team: str) -> int:
    """Return how many GPUs the guarantee of a team covers: its oldest runs, as long as they fit in whole."""
    covered = 0
    for run in sorted(active, key=lambda run: (run.started_at, run.seq)):
        if run.job.team == team and covered + run.gpus <= guarantee:
            covered += run.gpus
    return covered


class Case:
    """A cluster full of runs, and a job to which GPUs are guaranteed."""

    def __init__(self, sizes: list[int], guarantees: dict[str, int], placement: str, need: int) -> None:
        self.rig = Rig("fifo", [node(f"n{number}", size) for number, size in enumerate(sizes)], placement=placement)
        self.guarantees, self.need, self.sizes = guarantees, need, sizes
        self.rig.tell(*(TeamSet(0.0, Team(name, gpus)) for name, gpus in guarantees.items()))

    def run(self, name: str, team: str, gpus: set[int]) -> None:
        """Let a job run on these GPUs, counted over all nodes."""
        rig, first = self.rig, 0
        pinned: list[tuple[str, tuple[int, ...]]] = []
        for number, size in enumerate(self.sizes):
            here = tuple(gpu for gpu in range(size) if gpu + first in gpus)
            pinned += [(f"n{number}", here)] if here else []
            first += size
        rig.now += 10.0
        count = sum(len(here) for _, here in pinned)
        rig.submit(Job(name, count, task=Task(team=team), where=Where(pinned=tuple(pinned))))
        if rig.job(name).waits:
            rig.tell(Cancelled(rig.now, name))
        else:
            rig.begin(name)

    def fits_without(self, gone: set[str]) -> bool:
        hosts = self.rig.state.resources.nodes
        active = [run for run in self.rig.state.active.values() if run.id not in gone]
        taken = Counter(node for run in active for node, gpus in run.slots for _ in gpus)
        free = [len(host.holders) - taken[host.node.id] for host in hosts]
        return max(free) >= self.need or (self.need > max(self.sizes) and sum(free) >= self.need)

    def is_legal(self, gone: set[str]) -> bool:
        """Return whether each guarantee covers as many GPUs without these runs, and has no room for one of them."""
        active = list(self.rig.state.active.values())
        staying = [run for run in active if run.id not in gone]
        for team, guarantee in self.guarantees.items():
            held = sum(run.gpus for run in staying if run.job.team == team)
            if covered_gpus(staying, guarantee, team) < covered_gpus(active, guarantee, team):
                return False
            if any(held + run.gpus <= guarantee for run in active if run.id in gone and run.job.team == team):
                return False
        return True

    def victims(self) -> tuple[list[set[str]], list[set[str]]]:
        """Return all sets of runs whose GPUs would be enough, the smallest first; those of them that may be taken."""
        names = [run.id for run in self.rig.state.active.values()]
        sets = (set(some) for count in range(len(names) + 1) for some in combinations(names, count))
        enough = [some for some in sets if self.fits_without(some)]
        return enough, [some for some in enough if self.is_legal(some)]


@settings(max_examples=200, deadline=None)
@given(sizes, guarantees, holders, owners, st.sampled_from(("packed", "spread", "balanced")), st.integers(1, 5))
def test_a_guaranteed_job_starts_if_any_set_of_runs_can_make_room(
    sizes: list[int], figures: tuple[int, ...], holders: list[int], owners: list[str], placement: str, need: int
) -> None:
    if need > max(sizes):
        placement = "spread"  # it splits gangs over any idle GPUs
    case = Case(sizes, {"a": need, "b": figures[0], "c": figures[1]}, placement, need)
    for number, team in enumerate(owners, start=1):
        gpus = {gpu for gpu, holder in enumerate(holders[: sum(sizes)]) if holder == number}
        if gpus:
            case.run(f"r{number}", team, gpus)
    rig = case.rig
    assume(not case.fits_without(set()))
    enough, able = case.victims()
    can_serve = any(not any(less < some for less in enough) for some in able)
    rig.now += 100.0
    gone = {each.job for each in rig.submit(Job("x", need, task=Task(team="a"))) if isinstance(each, Stop)}
    event(f"can make room: {can_serve}")
    assert gone or not can_serve
    if gone:
        assert gone in able, "a guarantee covers less than before"
        assert not any(some < gone for some in able), "not all of them need stop"
        rig.leave(*gone)
        assert "x" in rig.active
