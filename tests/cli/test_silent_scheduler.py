"""A scheduler that is there and does not answer: every command says so, soon, with exit code 4."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.running.local_scheduler import Site, site
from weft.errors import Unreachable


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0"}) as made:
        yield made


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "words",
    [["queue"], ["show", "1"], ["why", "1"], ["gpus"], ["logs", "1"], ["cancel", "1"], ["submit", "--", "true"]],
    ids=" ".join,
)
def test_one_that_is_stopped_is_named_at_once(here: Site, words: list[str]) -> None:
    with here.client():
        pid = here.pid()
        with stopped(pid):
            done = here.weft(*words)
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith(
            f"weft: error: the scheduler (pid {pid}) is suspended\n  resume it: kill -CONT {pid}"
        )
    assert here.weft("queue").returncode == 0


def test_one_that_hangs_is_not_waited_for_long(here: Site) -> None:
    with here.client() as client:
        assert client.queue().jobs == []
        with (
            stopped(here.pid()),
            pytest.raises(Unreachable, match="has not answered for 1 s: it hangs or is overloaded"),
        ):
            client.jobs(["1"], timeout_s=1.0)
        assert client.queue().jobs == []
