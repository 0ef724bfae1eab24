"""Make the modules of this folder importable, and let Hypothesis draw the same examples every time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

from support.train_env import Inside, inside

if TYPE_CHECKING:
    from support.peers.postgres import Postgres
    from support.running.local_scheduler import Site
    from support.weft_cli import Weft

# A shell that starts this in the background leaves SIGINT ignored, and every command started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests may run as root, where workers would run jobs as their submitters, which have no accounts here.
os.environ.setdefault("WEFT_RUN_AS", "worker")

# `weft doctor` tries podman, whose usual limits a machine of tests may not permit.
os.environ.setdefault("CONTAINERS_CONF", str(Path(__file__).parent / "support" / "containers.conf"))

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.load_profile("steady")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and no scheduler to be found from there."""
    _without_config(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ".runtime"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job() -> Iterator[Inside]:
    """A run as a process of it sees it."""
    with inside() as made:
        yield made


@pytest.fixture(scope="session")
def database() -> Iterator[Postgres]:
    """A real PostgreSQL, for all tests of this process. Each takes a schema for itself."""
    from support.peers.postgres import postgres

    with postgres() as made:
        yield made


# ---- commands against a real scheduler: one per file of tests, in folders of its own


@pytest.fixture(scope="module")
def living() -> Iterator[Site]:
    from support.running.local_scheduler import site

    gpus = {"gpus": "0,1", "models": "RTX3090,RTX3090", "memories": "24576,24576", "min_run_s": 0.0}
    with site(gpus) as made:
        yield made


@pytest.fixture
def at_home(living: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    """In an empty folder, with the scheduler's environment."""
    _move_in(living, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return living


def _without_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables and files by which a developer configures commands."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path(__file__).parent / "no-such-folder"))
    for name in ("WEFT_SCHEDULER", "WEFT_SHARED", "WEFT_CONFIG", "WEFT_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)


def _move_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_config(monkeypatch)
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, site.env[name])


@pytest.fixture
def weft(at_home: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Weft]:
    from support.weft_cli import Weft

    made = Weft(at_home, capsys)
    yield made
    _move_in(at_home, monkeypatch)  # wherever the test has gone: no scheduler is to be started there
    if at_home.paths.answers():
        at_home.started.add(at_home.pid())
        made("cancel", "--all", "-y", code=None)
        made("resume")
