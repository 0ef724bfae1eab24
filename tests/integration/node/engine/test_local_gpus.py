"""Real runs, and a file that says they are on GPUs: from engine to facts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from support.running.process_engine import desk, shell
from weft.model import Blocked, Measured
from weft.node.engine.gpu.discovery import discover
from weft.node.engine.gpu.monitor import GpuMonitor, Misplaced, RunOnGpus
from weft.node.engine.gpu.nvml import NoDriver, open_nvml


def test_the_processes_of_a_run_are_told_from_others(tmp_path: Path) -> None:
    file = tmp_path / "gpus.json"

    def on_gpu(*pids: tuple[int, int]) -> None:
        held = [[{"pid": pid, "name": "python", "used_mb": 9000} for pid, at in pids if at == gpu] for gpu in (0, 1)]
        devices = [{"index": gpu, "memory_mb": 24576, "processes": held[gpu]} for gpu in (0, 1)]
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"devices": devices}))
        beside.rename(file)

    async def scene() -> None:
        on_gpu()
        nvml = open_nvml({"WEFT_NVML_FAKE": str(file)})
        assert not isinstance(nvml, NoDriver)
        machine = discover("here", nvml)
        watch = GpuMonitor("here", machine.devices)
        async with desk(tmp_path) as found:
            found.engine.start(shell("(setsid sh -c 'echo $$; exec sleep 60' &) ; sleep 60", gpus=(0,)))
            begun = await found.started()
            await found.says("\n")
            child = int(found.log().split()[0])
            on_gpu((begun.leader.pid, 0), (child, 1), (1, 1))
            pids = found.engine.pids()["1", 1]
            assert {begun.leader.pid, child} <= pids
            runs = {("1", 1): RunOnGpus((0,), pids, begun.at, 4096)}
            first = watch.update(1.0, nvml.read(), runs)
            assert first == [Misplaced(1.0, "1", 1, 1, child), Measured(1.0, "1", 1, 9472)]
            assert watch.update(2.0, nvml.read(), runs) == [
                Blocked(2.0, "here", 1, "ForeignProcess", None, "pid 1 (python)")
            ]

    asyncio.run(scene())
