"""A process that delivers messages to one target. A receiver that hangs costs this process, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

ATTEMPT_TIMEOUT_S: Final = 30.0
"""An attempt that takes longer counts as failed, and its process is killed."""
NICENESS: Final = 10


class Result(NamedTuple):
    ok: bool
    why: str = ""
    permanent: bool = False
    retry_s: float = 0.0


class Sender:
    def __init__(self, timeout_s: float = ATTEMPT_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._process: asyncio.subprocess.Process | None = None

    async def send(self, target: str, message: Mapping[str, Any]) -> Result:
        """Try to deliver a message once."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._ask(json.dumps({"target": target, "message": message}).encode() + b"\n")
        except TimeoutError:
            await self.close()
            return Result(False, f"no answer within {self._timeout_s:.0f} s")
        except (OSError, ValueError, TypeError) as error:
            await self.close()
            return Result(False, f"the process that delivers messages ended: {error}")

    async def _ask(self, line: bytes) -> Result:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "weft.access.notify",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True, cwd="/",
            )  # fmt: skip
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None
        assert answers is not None
        given.write(line)
        await given.drain()
        return Result(**json.loads(await answers.readline()))

    async def close(self) -> None:
        """End the process, and what it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        transport: Any = process
        transport._transport.close()  # else its pipes are closed by the collector, which warns
