"""`weft logs` and `weft run` on logs over their cap."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.running.local_scheduler import Site, site


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": ""}) as made:
        yield made


def test_the_note_about_a_removed_start_stays_out_of_the_output(here: Site) -> None:
    with here.client() as client:
        job = here.submit(client, "echo", "last words", gpus="0")
        client.wait(job)
    log = here.paths.jobs / job / "1" / "output.log"
    last = log.read_bytes()
    with log.open("wb") as file:
        os.truncate(file.fileno(), 700 << 20)
    with log.open("ab") as file:
        file.write(last)
    found = here.weft("logs", job)
    assert (found.returncode, found.stdout) == (0, "last words\n")
    assert found.stderr == ("weft: the first 700 MB of this log were removed: a log keeps at least its last 512 MB\n")
    assert here.weft("logs", "-n", "5", job).stderr == ""


def test_a_large_log_of_short_lines_prints_in_a_few_seconds(here: Site) -> None:
    with here.client() as client:
        job = here.submit(client, "sh", "-c", "yes | head -c 60000000", gpus="0")
        client.wait(job)
    found = here.weft("logs", job)
    assert len(found.stdout) == 60_000_000
