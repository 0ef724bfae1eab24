"""`gang_driver.py FOLDER GPUS PER_GPU COMMAND...`: two engines as two nodes of one gang; prints how each part ended.

A separate process, so that it can run in a network namespace with nothing but the loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from support.running.process_engine import until
from weft.node.engine.engine import ProcessEngine
from weft.node.engine.events import Report, RunExited
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.rendezvous import Gang, GangMember, detect_launcher, rendezvous_port


async def main(folder: Path, gpus: int, per_gpu: bool, argv: tuple[str, ...]) -> None:
    members = tuple(GangMember(name, "127.0.0.1", gpus) for name in ("a", "b"))
    parts = members[:1] if detect_launcher(argv) == "mpi" else members
    ended: dict[int, int | None] = {}
    engines = []
    for rank in range(len(parts)):

        def heard(report: Report, rank: int = rank) -> None:
            if isinstance(report, RunExited):
                ended[rank] = report.code if report.signal is None else 128 + report.signal

        engine = ProcessEngine(members[rank].node, folder / str(rank) / "jobs", folder / str(rank) / "runtime", heard)
        await engine.open()
        engines.append(engine)
        env = (*os.environ.items(), ("GLOO_SOCKET_IFNAME", "lo"), ("OMP_NUM_THREADS", "1"))
        gang = Gang(members, rank, rendezvous_port("1", 1))
        engine.start(LaunchSpec("1", 1, argv, env=env, gpus=tuple(range(gpus)), gang=gang, per_gpu=per_gpu))
    await until(lambda: len(ended) == len(parts), patience_s=240.0)
    for engine in engines:
        await engine.close()
    print(json.dumps([ended[rank] for rank in range(len(parts))]))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "yes", tuple(sys.argv[4:])))
