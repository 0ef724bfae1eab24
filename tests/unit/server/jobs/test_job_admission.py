"""The conditions under which a cluster accepts a job, and the notation of drained GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.builders import Rig, grid
from weft.access.auth.identity import Caller
from weft.access.wire.messages import JobSpec, SubmitRequest, Variable
from weft.errors import InputError
from weft.model import Job, Share, Task
from weft.model.node import CONTAINERS
from weft.scheduling.plugins.registry import load_placement
from weft.server.jobs.admission import ClusterRules, SingleNodeRules
from weft.server.jobs.builder import JobBuilder
from weft.server.process.slices import at_once
from weft.views.from_state.gpu_numbers import GpuNumbers


def builder(*, containers: bool = True) -> JobBuilder:
    nodes = [replace(node, labels=(CONTAINERS,)) if containers else node for node in grid(2, 2)]
    rig, numbers = Rig("fifo", nodes), GpuNumbers()
    numbers.set_numbers("n0", [0, 1])
    numbers.set_numbers("n1", [4, 6])
    return JobBuilder(ClusterRules(rig.state, numbers), rig.state.teams)


def made(*, containers: bool = True, **fields: Any) -> Job:
    spec = JobSpec(command=["true"], **fields)
    batch = at_once(
        builder(containers=containers).build(SubmitRequest(jobs=[spec]), 1, lambda _: [], Caller("ada", "user"))
    )
    ((job, _),) = batch.jobs()
    return job


def test_what_fits_nowhere_is_taken() -> None:
    assert made(gpus=4096).gpus == 4096


def test_a_node_is_a_label_and_its_gpus_are_numbered_as_it_says() -> None:
    assert made(node="n9", labels=[Variable(name="zone", value="a")]).where.labels == (("zone", "a"), ("node", "n9"))
    assert made(node="n1", gpu_ids=[6]).where.pinned == (("n1", (1,)),)
    assert made(node="n1", gpu_choice=[4, 6]).where.choice == (("n1", (0, 1)),)


def test_an_image_needs_a_node_that_runs_containers() -> None:
    assert made(image="alpine", node="n1").where.labels == (CONTAINERS, ("node", "n1"))
    assert made(image="alpine", labels=[Variable(name="containers", value="yes")]).where.labels == (CONTAINERS,)
    assert made(containers=False).where.labels == ()
    with pytest.raises(InputError, match="no node of this cluster runs containers"):
        made(image="alpine", containers=False)


def test_one_machine_looks_for_the_program_of_a_job_on_itself_but_not_for_that_of_a_container() -> None:
    rules = SingleNodeRules(grid(1, 1)[0], GpuNumbers(), load_placement("packed"))
    missing = Job("1", 1, command=("no-such-program",))
    rules.check(replace(missing, task=Task(image="alpine")))
    with pytest.raises(InputError, match="no program 'no-such-program'"):
        rules.check(missing)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpu_ids": [0]}, "ambiguous on several nodes"),
        ({"gpu_ids": [0], "node": "n9"}, "not connected"),
        ({"gpu_ids": [5], "node": "n1"}, "no GPU 5 on n1"),
        ({"gpus": 200_000}, "gpus: 200,000 is too many"),
        ({"chdir": "relative"}, "not an absolute path"),
        ({"share": "0.3/0.6", "max_jobs_per_gpu": 2}, "share does not go with max_jobs_per_gpu"),
        ({"share": "0.6/0.3"}, "the request 0.6 is over the limit 0.3"),
    ],
)
def test_what_makes_no_sense_is_not(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(**fields)


def test_a_share_is_a_request_and_a_limit() -> None:
    assert made(share="0.3/0.6").share == Share(0.3, 0.6)
    assert made(max_jobs_per_gpu=4).share == Share(0.25, 0.25)


def test_a_snapshot_has_paths_of_its_own() -> None:
    assert made(chdir="train", snapshot="0" * 64).task == Task(chdir="train", snapshot="0" * 64)
