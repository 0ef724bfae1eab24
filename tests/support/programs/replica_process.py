"""Replicas of the router's tests as processes: `python replica_process.py NAME PORT [HOST]` runs one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]


async def start_process(name: str, port: int = 0) -> tuple[asyncio.subprocess.Process, int]:
    """Start a replica; return its process and its port once it accepts connections."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__)), name, str(port), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    return process, int(await process.stdout.readline())


@asynccontextmanager
async def replica_processes(*names: str) -> AsyncIterator[list[tuple[asyncio.subprocess.Process, int]]]:
    """Run replicas as processes."""
    started = [await start_process(name) for name in names]
    try:
        yield started
    finally:
        for process, _ in started:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def main(name: str, port: int, host: str = "127.0.0.1") -> None:
    from support.programs.http_replica import Replica

    replica = Replica(name)
    await replica.start(port, host)
    print(replica.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
