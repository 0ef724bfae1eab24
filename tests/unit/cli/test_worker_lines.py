"""The lines of a worker at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.access.endpoints.addresses import Address
from weft.cli.views.worker import StatusLines
from weft.node.agent.state_dir import AgentDir
from weft.node.agent.worker_event import WorkerEvent
from weft.node.engine.gpu.discovery import DeclaredGpus, discover
from weft.node.engine.gpu.nvml import NoDriver


@pytest.mark.parametrize(
    ("stopped", "left", "words"),
    [(2, 0, "2 runs stopped"), (2, 1, "1 run still running"), (0, 0, "nothing was running")],
)
def test_the_last_line_says_what_became_of_the_runs(
    stopped: int, left: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = discover("n1", NoDriver("none"), DeclaredGpus((0,)))
    lines = StatusLines("never", machine, Address("localhost", 1), AgentDir(tmp_path, tmp_path / "run"))
    lines.report(WorkerEvent("leaving", runs=stopped))
    lines.end(left)
    assert words in capsys.readouterr().out.splitlines()[-1]
