"""Which sessions are opened and closed as things happen, with a load_backend that only remembers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weft.access.endpoints.paths import Paths
from weft.errors import InputError
from weft.views.answers.base import replace_fields
from weft.views.answers.jobs import JobDetailView
from weft.workspace.config import Config, parse
from weft.workspace.sessions.backends import NoSessions, Session, Tmux, load_backend, session_name
from weft.workspace.sessions.display import SessionDisplay
from weft.workspace.sessions.tags import Tag, tag_of


class Remembered(NoSessions):
    def __init__(self) -> None:
        self.open_ones: dict[str, str] = {}

    def all(self) -> list[Session]:
        return [Session(name, tag) for name, tag in self.open_ones.items()]

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:
        fits = name not in self.open_ones
        if fits:
            self.open_ones[name] = tag
        return fits

    def close(self, name: str) -> None:
        del self.open_ones[name]


def config(home: str = "/ws", more: str = "") -> Config:
    return parse(f"task_name: exp\n{more}", Path(home), Path(home, "scheduler_config.yml"))


def display(sessions: Remembered, home: str = "/ws", more: str = "") -> SessionDisplay:
    return SessionDisplay(config(home, more), Paths(Path("/s"), Path("/r")), sessions)


def submitted(job: str, name: str, home: str = "/ws") -> dict[str, Any]:
    task = {"group": f"workspace:{home}/scheduler_config.yml"}
    return {"fact": "Submitted", "job": {"id": job, "params": [["config_name", name]], "task": task}}


def runs(job: str, gpu: int, run: int = 1) -> list[dict[str, Any]]:
    start = {"fact": "Start", "job": job, "run": run, "slots": [["n", [gpu]]]}
    return [start, {"fact": "Started", "job": job, "run": run}]


def exited(job: str, how: str = "done") -> dict[str, Any]:
    return {"fact": "Exited", "job": job, "run": 1, "how": how}


def test_each_task_has_a_session_and_strangers_have_none() -> None:
    sessions = Remembered()
    show = display(sessions)
    facts = [submitted("1", "a"), submitted("2", "b", "/other"), *runs("1", 0), *runs("2", 1), {"fact": "Wake"}]
    assert [show.apply(fact) for fact in facts] == [True, False, True, True, False, False, False]
    assert list(sessions.open_ones) == ["exp_a_gpu0"]
    assert show.apply(exited("1"))
    assert list(sessions.open_ones) == ["exp_a_gpu0"]


def test_cleanup_closes_what_is_complete() -> None:
    sessions = Remembered()
    show = display(sessions, more="cleanup_on_complete: true")
    for fact in [
        submitted("1", "a"),
        submitted("2", "b"),
        *runs("1", 0),
        *runs("2", 1),
        exited("1"),
        exited("2", "failed"),
    ]:
        show.apply(fact)
    assert list(sessions.open_ones) == ["exp_b_gpu1"]


def test_a_name_that_is_taken() -> None:
    sessions = Remembered()
    sessions.open_ones["exp_a_gpu0"] = "mine, by hand"
    show = display(sessions)
    for fact in [submitted("1", "a"), *runs("1", 0)]:
        show.apply(fact)
    assert list(sessions.open_ones) == ["exp_a_gpu0", "exp_a_gpu0_job1"]
    other = display(sessions, "/other")
    for fact in [submitted("2", "a", "/other"), *runs("2", 0)]:
        other.apply(fact)
    assert sorted(sessions.open_ones) == ["exp_a_gpu0", "exp_a_gpu0_job1", "exp_a_gpu0_job2"]
    assert (show.close_all(), other.close_all()) == (1, 1)
    assert list(sessions.open_ones) == ["exp_a_gpu0"]


def test_the_next_run_takes_the_place_of_the_last_and_names_alike_do_not() -> None:
    sessions = Remembered()
    show = display(sessions)
    for fact in [submitted("1", "a.b"), *runs("1", 0), *runs("1", 0, run=2), submitted("2", "a:b"), *runs("2", 0)]:
        show.apply(fact)
    tags = {name: Tag.parse(tag) for name, tag in sessions.open_ones.items()}
    own = tag_of(Path("/s"), config())
    assert tags == {
        "exp_a_b_gpu0": own._replace(job="1", run="2"), "exp_a_b_gpu0_job2": own._replace(job="2", run="1"),
    }  # fmt: skip


def test_a_run_on_another_gpu_leaves_nothing_behind_on_the_first() -> None:
    sessions = Remembered()
    show = display(sessions)
    for fact in [submitted("1", "a"), submitted("2", "b"), *runs("1", 0), *runs("2", 0), *runs("1", 1, run=2)]:
        show.apply(fact)
    assert list(sessions.open_ones) == ["exp_b_gpu0", "exp_a_gpu1"]
    for fact in [submitted("3", "b"), *runs("3", 1)]:  # the same config once more
        show.apply(fact)
    assert list(sessions.open_ones) == ["exp_a_gpu1", "exp_b_gpu1"]


RUNS = JobDetailView(id="1", name="a", last_gpus=[1], status="running", run=3)


def test_those_that_run_already() -> None:
    sessions = Remembered()
    show = display(sessions)
    show.update([RUNS])
    show.update([RUNS])
    assert list(sessions.open_ones) == ["exp_a_gpu1"]
    sessions.close("exp_a_gpu1")  # by hand
    show.update([RUNS])
    assert list(sessions.open_ones) == ["exp_a_gpu1"]


def test_two_that_show_the_same_open_one_session() -> None:
    sessions = Remembered()
    show, other = display(sessions), display(sessions)
    other.update([RUNS], names_only=True)
    show.update([RUNS])
    other.apply({"fact": "Started", "job": "1", "run": 3})
    assert list(sessions.open_ones) == ["exp_a_gpu1"]


def test_cleanup_closes_what_completed_while_nobody_looked() -> None:
    sessions = Remembered()
    show = display(sessions, more="cleanup_on_complete: true")
    show.update([RUNS])
    display(sessions, more="cleanup_on_complete: true").update([replace_fields(RUNS, status="done")])
    assert list(sessions.open_ones) == []


def test_names_that_are_too_long_keep_their_gpu_and_differ() -> None:
    sessions = Remembered()
    show = display(sessions)
    for job, name in (("1", "x" * 230 + "1"), ("2", "x" * 230 + "2")):
        for fact in [submitted(job, name), *runs(job, 0)]:
            show.apply(fact)
    assert len(sessions.open_ones) == 2
    assert all(name.endswith("_gpu0") and len(name) == 200 for name in sessions.open_ones)


def test_names_that_tmux_takes() -> None:
    assert session_name("exp_a-1_gpu0") == "exp_a-1_gpu0"
    assert session_name("a:b.c d'\"$;实") == "a_b_c_d____实"
    assert session_name("") == "_"


def test_backends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    screens = tmp_path / "shown_elsewhere.py"
    screens.write_text("from weft.workspace.sessions.backends import NoSessions as Screens\n")
    assert isinstance(load_backend("tmux"), Tmux)
    assert load_backend("none").why_not()
    assert isinstance(load_backend("weft.workspace.sessions.backends:NoSessions"), NoSessions)
    assert isinstance(load_backend("shown_elsewhere:Screens", screens.parent), NoSessions)
    for name in ("screen", "nowhere:Nothing", "os:nothing"):
        with pytest.raises(InputError, match="bad session_backend"):
            load_backend(name)
