"""A backend needs three methods: for the ports that it does not offer there are stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from weft.access.endpoints.paths import Paths
from weft.access.server.settings import Settings
from weft.model import Exited, Gpu, Job, JobId, Node, NodeJoined, Start, Started, Submitted
from weft.scheduling.core.state.job import JobState
from weft.server.backends.base import BackendPorts, Host, Order
from weft.server.controller import Controller
from weft.views.from_state.measured import BackendSummary


class AtOnce:
    """Runs are over as soon as they have been started."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def open(self, known: Mapping[JobId, JobState]) -> None:
        assert not known
        self._host.loop.post(lambda now: [NodeJoined(now, Node("n1", (Gpu(),)))])

    def execute(self, order: Order) -> None:
        if isinstance(order, Start):
            job, run = order.job, order.run
            self._host.loop.post(lambda now: [Started(now, job, run), Exited(now, job, run, "done", code=0)])

    async def close(self) -> None: ...


def test_three_methods_are_enough(tmp_path: Path) -> None:
    async def scene() -> None:
        paths = Paths(tmp_path / "s", tmp_path / "r")
        paths.make()
        controller = Controller(paths, Settings(policy="fifo"), lambda host: BackendPorts(AtOnce(host)))
        await controller.open()
        await controller.loop.call(lambda now: ([Submitted(now, Job("1"))], None))
        while not controller.is_idle():
            await asyncio.sleep(0.001)
        job = controller.scheduler.state.jobs["1"]
        assert job.status == "done"
        assert (controller.inventory.nodes(), controller.inventory.readings()) == ({}, {})
        assert controller.inventory.summary() == BackendSummary()
        assert controller.run_logs.tail("1", 1) == b""
        assert controller.run_logs.kept(job, 1, 0, 0).missing
        part = await controller.run_logs.read(job, 1, 0, 0, 0)
        assert part is not None
        assert part.missing
        await controller.apply_settings(policy="sjf")
        assert controller.policy == "sjf"
        controller.stop()
        await controller.until_done(lambda: 0.0)
        await controller.close()

    asyncio.run(scene())
