"""The last checkpoint that a job recorded. Other content of its folder is ignored, and never blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.server.jobs.checkpoints import last_checkpoint
from weft.views.answers.jobs import CheckpointView


@pytest.fixture
def record(tmp_path: Path) -> Path:
    folder = tmp_path / "7" / "checkpoints"
    folder.mkdir(parents=True)
    return folder / "latest.json"


def test_what_was_recorded_last(tmp_path: Path, record: Path) -> None:
    assert last_checkpoint(tmp_path, "7") is None
    record.write_text('{"path": "/data/model.pt", "step": 400, "time": 1750000000.5}')
    assert last_checkpoint(tmp_path, "7") == CheckpointView("/data/model.pt", 400, "2025-06-15T15:06:40.500Z")


@pytest.mark.parametrize("body", ["", "[]", "{}", "{", '{"path": 1, "time": 1e400}', '{"path": "a", "time": "b"}'])
def test_anything_else_is_none(tmp_path: Path, record: Path, body: str) -> None:
    record.write_text(body)
    assert last_checkpoint(tmp_path, "7") is None


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path, record: Path) -> None:
    os.mkfifo(record)
    assert last_checkpoint(tmp_path, "7") is None
