"""A state directory on a read-only file system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from support.running.local_scheduler import Site, site


@pytest.fixture
def here() -> Iterator[Site]:
    with site({}) as made:
        place = made.root / "ro"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            if os.environ.get("CI") == "true":
                pytest.fail("this needs root, to mount a file system")
            pytest.skip("only root can mount a file system")
        made.env["XDG_STATE_HOME"] = str(place)
        try:
            yield made
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)


def test_doctor_says_that_it_cannot_be_written(here: Site) -> None:
    found = here.weft("doctor")
    assert found.returncode == 1
    assert "ro/weft cannot be written: its file system is read-only" in " ".join(found.stdout.split())
