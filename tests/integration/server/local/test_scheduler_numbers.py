"""Numbers stay: GPUs have the driver's, and no id of a job is used twice, purged jobs included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.running.local_scheduler import Site, site, until
from weft.errors import InputError
from weft.views.answers.operations import DRAIN


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "2,5", "min_run_s": 0}) as made:
        yield made


def test_gpus_are_called_as_they_were_declared(here: Site) -> None:
    with here.client() as client:
        assert [row.gpu for row in client.gpus().gpus] == [2, 5]
        job = here.submit(client, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60", gpu_ids="5")
        found = until(lambda: client.jobs([job]).jobs[0].place)
        assert found.endswith("[5]")
        until(lambda: b"".join(client.logs(job)) == b"5\n")
        waits = here.submit(client, "true", gpu_ids="5")
        assert "[5]" in client.explain(waits).reasons[0].text
        client.change("set", [waits], settings={"priority": "3"})
        client.operate(DRAIN, gpus="2")
        assert [row.gpu for row in client.gpus().gpus if row.blocked] == [2]
        with pytest.raises(InputError, match="there is no GPU 0\n  there are: 2, 5"):
            here.submit(client, "true", gpu_ids="0")


def test_no_id_is_given_twice_even_if_all_jobs_are_forgotten(here: Site) -> None:
    with here.client() as client:
        first = here.submit(client, "true", gpus="0")
        client.wait(first)
        client.change("forget", [first])
    here.kill9()
    with here.client() as client:
        assert int(here.submit(client, "true", gpus="0")) > int(first)


def test_jobs_without_gpus_take_turns(here: Site) -> None:
    """Each counts as one CPU, or any number of them would run at once."""
    with here.client() as client:
        cpus = client.nodes().nodes[0].cpus
        for _ in range(cpus + 3):
            here.submit(client, "sleep", "60", gpus="0")
        assert client.queue().running == cpus
