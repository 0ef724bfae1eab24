"""Hydra's own tests of launchers in which the job runs a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from support.running.local_scheduler import site

suites = pytest.importorskip("hydra.test_utils.launcher_common_tests")
FLAGS = ["-m", "hydra/launcher=weft", "hydra.launcher.gpus=0"]


@pytest.fixture(scope="module", autouse=True)
def scheduler() -> Iterator[None]:
    with site({"gpus": "0", "models": "A", "memories": "24576"}) as here, pytest.MonkeyPatch.context() as patch:
        for key in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"):
            patch.setenv(key, here.env[key])
        patch.setenv("PYTHONPATH", str(Path(weft.__file__).parents[1]))
        yield
        if here.paths.lock.exists():
            here.started.add(here.pid())


@pytest.mark.soak
@pytest.mark.parametrize(("task_launcher_cfg", "extra_flags"), [({}, FLAGS)])
class TestLauncher(suites.IntegrationTestSuite):  # type: ignore[misc, name-defined]
    """The tests are Hydra's."""
