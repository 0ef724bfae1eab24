"""`weft metrics`: of a file, of a journal, of this machine's scheduler."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
from support.running.local_scheduler import until
from support.weft_cli import Weft
from weft.cli.main import main
from weft.history.journal import open_journal
from weft.sim.output import read_journal

SIM = ["sim", "demo", "--cluster", "4x8", "--out", "out"]


def figures_of(found: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in found.items() if key not in ("file", "scheduler")}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("more", [["--policy", "srtf"], ["--policy", "muri-l", "--model", "muri"]])
def test_a_journal_gives_the_same_figures_as_its_job_csv(capsys: Capture, more: list[str]) -> None:
    printed = as_json(capsys, *SIM, *more)
    table = figures_of(as_json(capsys, "metrics", "out/job.csv"))
    assert figures_of(as_json(capsys, "metrics", "out/journal.jsonl")) == table
    assert table.items() <= printed.items()


def test_a_journal_is_known_by_its_content(capsys: Capture, here: Path) -> None:
    expected = as_json(capsys, *SIM)["avg_jct_s"]
    facts = list(open_journal(here / "out" / "journal.jsonl", readonly=True).read())
    with open_journal(here / "state.db") as journal:
        journal.append(*facts)
        assert journal.compact()
    shutil.copy(here / "out" / "journal.jsonl", here / "copy")
    shutil.copy(here / "state.db", here / "backup")
    for name in ("state.db", "copy", "backup"):
        assert as_json(capsys, "metrics", name)["avg_jct_s"] == pytest.approx(expected)
    assert as_json(capsys, "metrics", "copy", "--gpus", "64")["gpu_utilisation"] == pytest.approx(
        as_json(capsys, "metrics", "copy")["gpu_utilisation"] / 2
    )


def test_users_and_times_are_selected(capsys: Capture, here: Path) -> None:
    as_json(capsys, *SIM)
    for file in ("out/job.csv", "out/journal.jsonl"):
        users = [as_json(capsys, "metrics", file, "--user", user)["jobs"] for user in ("ada", "bo", "chen", "nemo")]
        assert users[-1] == 0
        assert all(users[:3])
        recent = as_json(capsys, "metrics", file, "--since", "10h")
        assert 0 < recent["jobs"] < 200
        assert as_json(capsys, "metrics", file, "--group", "vision")["jobs"] == 0
    assert "--since" in fails(capsys, "metrics", "out/job.csv", "--since", "soon")
    assert "both given" in fails(capsys, "metrics", "out/job.csv", "--scheduler", "local")
    (here / "empty.jsonl").write_text('{"weft":"journal","format":1}\n')
    assert as_json(capsys, "metrics", "empty.jsonl")["jobs"] == 0
    (here / "torn.db").write_bytes(b"SQLite format 3\0 and no more")
    assert "torn.db" in fails(capsys, "metrics", "torn.db", code=1)
    assert "no such file" in fails(capsys, "metrics", "gone.db")


def test_without_a_scheduler_there_are_no_jobs(capsys: Capture, here: Path) -> None:
    found = as_json(capsys, "metrics")
    assert (found["jobs"], found["avg_jct_s"], found["scheduler"]) == (0, None, "the scheduler of this machine")
    assert main(["metrics"]) == 0
    assert not (here / ".state").exists(), "no scheduler is started"


def test_the_figures_of_the_scheduler_of_this_machine(weft: Weft) -> None:
    with weft.site.client() as client:
        ids = [weft.site.submit(client, "sleep", "0.2", group="vision") for _ in range(2)]
        failing = weft.site.submit(client, "false")
        low = weft.site.submit(client, "sleep", "60", gpus="2")
        until(lambda: weft.show(low)["status"] == "running")
        weft.site.submit(client, "true", gpus="2", priority="9")
        until(lambda: weft.show(low)["preemptions"] == 1 and weft.show(low)["status"] == "running")
        weft("cancel", low)
        until(lambda: weft.show(low)["status"] == "cancelled")
    found = weft.json("metrics")
    assert (found["jobs"], found["finished"], found["failed"], found["unfinished"]) == (5, 3, 1, 0)
    assert found["preemptions"] == 1
    assert found["avg_jct_s"] >= found["avg_queue_s"] > 0
    assert 0 < found["gpu_utilisation"] <= 1
    group = weft.json("metrics", "--group", "vision")
    assert (group["jobs"], group["finished"]) == (2, 2)
    assert group["p50_jct_s"] >= 0.2
    weft("clean", failing, *ids)
    until(lambda: weft.json("metrics")["jobs"] == 2)
    assert weft.json("metrics", "--since", "1h", "--user", os.environ.get("USER", "root"))["jobs"] in (0, 2)
    state = weft.site.paths.state / "state.db"
    assert figures_of(weft.json("metrics", str(state))) == figures_of(weft.json("metrics"))
    assert len(read_journal(state).record.jobs) == 2
    assert "average JCT" in weft("metrics", "--color", "always").out
