"""SIGTERM while a server or a worker is still starting, also if a library swallows its exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running.live_cluster import SOURCE, Cluster, cluster
from support.running.local_scheduler import until

SWALLOWING = """
import os, signal, sys

class Swallowing:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except BaseException:
                print("swallowed", flush=True)

sys.meta_path.insert(0, Swallowing())
"""


def swallowing(here: Cluster, folder: Path, module: str) -> None:
    """From now on, a process that imports this module gets SIGTERM, and does not notice."""
    (folder / "sitecustomize.py").write_text(SWALLOWING.format(module=module))
    here.env["PYTHONPATH"] = f"{folder}:{SOURCE}"


@pytest.mark.parametrize(
    ("module", "words", "code"),
    [
        ("weft.node.agent.worker", ("worker", "--id", "n1", "--gpus", "0"), 0),
        ("weft.access.server.plan", ("server", "--port", "0"), 143),
    ],
)
def test_it_ends_all_the_same(tmp_path: Path, module: str, words: tuple[str, ...], code: int) -> None:
    with cluster() as here:
        before = here.env["PYTHONPATH"]
        swallowing(here, tmp_path, module)
        process = here.start("told", *words)
        here.env["PYTHONPATH"] = before
        until(lambda: process.poll() is not None)
        assert (process.returncode, here.out("told").splitlines()[0]) == (code, "swallowed")
        del here.processes["told"]
