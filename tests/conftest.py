"""Makes the modules beside it importable, and Hypothesis draw the same examples every time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from inside import Inside, inside

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.load_profile("steady")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and no scheduler to be found from there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ".runtime"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job() -> Iterator[Inside]:
    """A run as a process of it sees it."""
    with inside() as made:
        yield made
