"""The core refuses jobs that make no sense, whole events before any is folded in."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid
from weft.errors import InputError
from weft.model import Job, PerRank, Share, Submitted, Where
from weft.scheduling.core.admission import check_job
from weft.scheduling.policies.fifo import Fifo

BAD = {
    "the id is empty": Job(""),
    "gpus is -1, not a number from 0": Job("a", gpus=-1),
    "retries is -2, not a number from 0": Job("a", retries=-2),
    "memory_mb has 3 figures for 2 GPUs": Job("a", gpus=2, memory_mb=PerRank(1, 2, 3)),
    "memory_mb is -1, not numbers from 0": Job("a", memory_mb=PerRank(-1)),
    "share is -0.5 to 1.0": Job("a", share=Share(-0.5)),
    "share is 0.5 to 0.4": Job("a", share=Share(0.5, 0.4)),
    "declared_s is nan, not seconds from 0": Job("a", declared_s=float("nan")),
    "iterations is -5, not a number from 0": Job("a", iterations=-5),
    "it is pinned to 2 GPUs and needs 1": Job("a", where=Where(pinned=(("n0", (0, 1)),))),
    "it is pinned to the same GPU twice": Job("a", gpus=2, where=Where(pinned=(("n0", (0, 0)),))),
}


@pytest.mark.parametrize(("words", "job"), BAD.items(), ids=BAD)
def test_it_says_what_is_wrong(words: str, job: Job) -> None:
    with pytest.raises(InputError, match=f"job '{job.id}': {words}"):
        check_job(job)


def test_a_step_with_a_bad_job_changes_nothing() -> None:
    rig = Rig(Fifo(), grid(1, 1))
    with pytest.raises(InputError):
        rig.scheduler.step(Submitted(0.0, Job("good")), Submitted(0.0, Job("bad", gpus=-1)))
    assert not rig.scheduler.state.jobs
