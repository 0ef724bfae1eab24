"""Plans are tried out with runs gone that are still there: every placement follows, a classic function too."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.builders import Recording, Rig, grid, record, starts, stops, traced
from weft.errors import PlanError
from weft.model import Blocked, Gpu, Job, Node, Start
from weft.scheduling.plugins import registry
from weft.sim.traces.generator import generate

CLASSIC = """
def assign(workers, task):
    able = {}
    for name, worker in workers.items():
        free = [gpu.id for gpu in worker.gpus if gpu.available and gpu.memory >= task.min_gpu_memory]
        if len(free) >= task.required_gpus:
            able[name] = free
    if not able:
        return None
    name = min(able, key=lambda name: (workers[name].active_tasks, name))
    return name, able[name][-task.required_gpus:] if len(able) > 1 else able[name][:task.required_gpus]

def no_pair(workers, task):
    return 5

def no_list(workers, task):
    return "n0", 3

def busy(workers, task):
    return "n0", ["0"]

def twice(workers, task):
    return "n0", ["0", "0"][:task.required_gpus]
"""
CLASSIC_NAME = "classic"
every_placement = pytest.mark.parametrize(
    "placement", [*sorted(registry.registered_plugins("weft.placements")), CLASSIC_NAME]
)


@pytest.fixture
def classic(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(CLASSIC)
    return str(path)


def run(policy: str, placement: str, classic: str, *jobs: object, nodes: tuple[Node, ...] = grid(2, 4)) -> Recording:
    name = f"{classic}:assign" if placement == CLASSIC_NAME else placement
    return record(nodes, jobs, policy, placement=name, checkpoint_interval_s=0)  # type: ignore[arg-type]


@every_placement
def test_a_blocked_head_starts_when_its_reservation_says(placement: str, classic: str) -> None:
    """Two nodes of 4. a holds 3 GPUs to 100, b 3 to 200, longer where it is split. The head needs both nodes, or one
    where gangs are not split. Long jobs behind it would delay it for 1000 s."""
    gpus, last = (4, "a") if placement == CLASSIC_NAME else (8, "b")
    jobs = [traced("a", 0, 100, gpus=3), traced("b", 0, 200, gpus=3), traced("head", 1, 10, gpus=gpus)]
    jobs += [traced(f"long{n}", 2 + n, 1000) for n in range(6)] + [traced("short", 9, 20)]
    done = run("fifo:backfill=on", placement, classic, *jobs)
    assert done.first_starts()["head"] == done.ends()[last]


@every_placement
def test_srsf_stops_the_longer(placement: str, classic: str) -> None:
    jobs = [traced("big", 0, 1000, gpus=4), traced("wide", 0, 900, gpus=4), traced("small", 10, 10, gpus=2)]
    done = run("srsf", placement, classic, *jobs)
    assert done.first_starts()["small"] == 10
    assert done.state.jobs["big"].preemptions == 1


@every_placement
@pytest.mark.parametrize("policy", ["srsf", "fifo:backfill=on", "qssf", "gittins"])
def test_nobody_waits_for_ever(policy: str, placement: str, classic: str) -> None:
    jobs = generate(60, seed=5, gpus_in_cluster=16, load=1.2, mix={1: 0.5, 2: 0.3, 4: 0.2}, median_s=300, mean_s=900)
    done = run(policy, placement, classic, *jobs.jobs, nodes=grid(4, 4))
    assert {job.status for job in done.state.jobs.values()} == {"done"}


def test_simple_idle_only_leaves_a_node_alone_where_a_run_without_gpus_is() -> None:
    rig = Rig(
        "simple", [Node("n0", (Gpu(),) * 2, cpus=4), Node("n1", (Gpu(),) * 2, cpus=4)], placement="simple:idle_only=on"
    )
    assert starts(rig.submit(Job("cpu", 0, cpus=1))) == {"cpu": (("n0", ()),)}
    assert starts(rig.submit(Job("a"), Job("b"))) == {"a": (("n1", (0,)),)}
    rig.exit("cpu")
    assert rig.job("b").slots == (("n0", (0,)),)


def test_simple_idle_only_uses_a_node_with_a_blocked_gpu() -> None:
    rig = Rig("simple", grid(1, 2), placement="simple:idle_only=on")
    rig.tell(Blocked(0.0, "n0", 0, "Drained"))
    assert starts(rig.submit(Job("a"))) == {"a": (("n0", (1,)),)}


def test_simple_idle_only_stops_all_on_the_node_it_empties() -> None:
    """To seat one more, a node must be idle: all other runs on it stop, and none elsewhere."""
    rig = Rig("priority:preempts=on", grid(2, 2), placement="simple:idle_only=on")
    rig.submit(Job("a", priority=2), Job("b", priority=1))
    rig.settle()
    assert stops(rig.submit(Job("c", priority=3))) == {"b": "preempted"}
    rig.settle()
    assert rig.job("c").slots == (("n1", (0,)),)


def test_classic_gets_the_gpus_it_named_among_all_workers(classic: str) -> None:
    """With a choice of workers the function names the last GPUs; asked about one alone it would name the first."""
    done = run("fifo", CLASSIC_NAME, classic, traced("a", 0, 10, gpus=2))
    assert [fact.slots for fact in done.facts if isinstance(fact, Start)] == [(("n0", (2, 3)),)]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("no_pair", r"no_pair returned 5; expected \(worker, gpus\) or None"),
        ("no_list", "no_list returned 3 for GPUs; expected a list of their ids"),
        ("busy", "busy returned GPUs 0 of n0; available are 1"),
        ("twice", "twice returned GPUs 0, 0 of n0; available are 0, 1"),
    ],
)
def test_a_wrong_answer_is_named(classic: str, function: str, words: str) -> None:
    jobs = [traced("a", 0, 10, gpus=2)] if function == "twice" else [traced("a", 0, 10), traced("b", 1, 10)]
    with pytest.raises(PlanError, match=words + r" \(.*mine\.py:\d+\)"):
        record(grid(1, 2), jobs, "fifo", placement=f"{classic}:{function}")
