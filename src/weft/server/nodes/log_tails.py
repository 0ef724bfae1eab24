"""The last part of each log, kept by the server for when the node cannot be reached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.inputs.atomic import write_atomic
from weft.model import JobId, NodeId
from weft.node.engine.output.logs import MISSING, LogPart, last_lines_offset
from weft.node.engine.shim import run_files

PREFIX: Final = "tail."
MAX_TAIL_BYTES: Final = 16 << 10


class LogTails:
    """Files in the folders of the runs, one for each node of a gang. The first line is the offset in the log."""

    def __init__(self, jobs: Path, on_change: Callable[[Path], None] = lambda _: None) -> None:
        self._jobs, self._on_change = str(jobs), on_change

    def keep(self, node: NodeId, job: JobId, run: int, offset: int, text: bytes) -> None:
        folder = run_files.run_dir(self._jobs, job, run)
        run_files.make_run_dir(folder)
        start = max(len(text) - MAX_TAIL_BYTES, 0)
        path = Path(folder, PREFIX + node)
        write_atomic(path, b"%d\n%b" % (offset + start, text[start:]))
        self._on_change(path)

    def nodes(self, job: JobId, run: int) -> list[NodeId]:
        """Return the nodes of which a tail is kept."""
        try:
            found = sorted(os.listdir(run_files.run_dir(self._jobs, job, run)))
        except OSError:
            return []
        return [name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX) and not name.endswith(".tmp")]

    def read(self, node: NodeId, job: JobId, run: int, offset: int = 0, lines: int = 0) -> LogPart:
        try:
            content = Path(run_files.run_dir(self._jobs, job, run), PREFIX + node).read_bytes()
        except OSError:
            return MISSING
        head, _, text = content.partition(b"\n")
        begins = int(head) if head.isdigit() else 0
        skip = last_lines_offset(text, lines) if lines else max(min(offset - begins, len(text)), 0)
        return LogPart(text[skip:], begins + skip, begins + len(text))
