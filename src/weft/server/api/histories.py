"""The history of the journal, read by processes of low priority: the server's loop never waits for it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from weft.access.wire import messages as m
from weft.errors import WeftError
from weft.history.journal import for_process

MAX_READERS: Final = 2
"""Processes that read the journal at once; more callers wait."""
PAGE_BYTES: Final = 256 << 10
MAX_ERROR_CHARS: Final = 500


class Histories:
    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_READERS)

    async def stream(self, url: str) -> AsyncIterator[m.FactLines]:
        """Yield the facts of the journal's snapshot, page by page. A caller that goes away ends the reading."""
        async with self._free:
            shown, variables = for_process(url)
            command = (sys.executable, "-m", "weft.history.journal", "history", shown)
            pipe, env = asyncio.subprocess.PIPE, {**os.environ, **variables}
            process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=env)
            assert process.stdout is not None
            assert process.stderr is not None
            errors = asyncio.create_task(process.stderr.read())
            try:
                rest = b""
                while block := await process.stdout.read(PAGE_BYTES):
                    *lines, rest = (rest + block).split(b"\n")
                    if lines:
                        yield m.FactLines(json=[line.decode("ascii") for line in lines])
                if await process.wait():
                    text = (await errors).decode(errors="replace").strip()[-MAX_ERROR_CHARS:]
                    raise WeftError(f"the journal could not be read: {text}\n  weft doctor checks it")
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                errors.cancel()
                await process.wait()
