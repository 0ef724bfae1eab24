"""Sweeps of real processes: trials, their results after a restart, limits, and rules that stop trials early."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import until
from support.weft_cli import Weft
from weft.node.engine.shim.run_files import EXIT

TRAIN = """
import os, sys, time
from weft import train

value, steps, pause_s = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
saved = train.resume_path()
first = int(open(saved).read()) if saved else 0
print("from", first, flush=True)
with train.preemptible() as stop:
    for step in range(first + 1, steps + 1):
        train.progress(step, steps, loss=value, acc=1 / value)
        time.sleep(pause_s)
        if stop.should_stop:
            path = "checkpoint-" + os.environ["WEFT_JOB_ID"]
            with open(path, "w") as file:
                file.write(str(step))
            train.checkpoint(path)
            stop.requeue()
"""


@pytest.fixture(autouse=True)
def training(weft: Weft) -> None:
    del weft  # it moves into an empty folder first
    Path("train.py").write_text(TRAIN)


def sweep(weft: Weft, *words: str, steps: int = 3, pause_s: float | str = 0.0) -> str:
    command = [sys.executable, "train.py", "{v}", str(steps), str(pause_s)]
    return weft("sweep", "-q", *words, "--", *command).out.strip()


def results(weft: Weft, name: str) -> dict[str, Any]:
    return weft.json("sweep", "results", name)


def trials(weft: Weft, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = results(weft, name)["trials"]
    return found


def statuses(weft: Weft, name: str) -> str:
    return " ".join(trial["status"] for trial in trials(weft, name))


def until_settled(weft: Weft, name: str) -> list[dict[str, Any]]:
    """Wait until every trial has ended or is stopped."""
    until(lambda: not set(statuses(weft, name).split()) - {"done", "failed", "cancelled", "stopped"})
    return trials(weft, name)


def test_a_grid_and_its_results_survive_a_killed_scheduler(weft: Weft) -> None:
    name = sweep(weft, "--grid", "v=3,1,2", "--name", "v{v}-{index}")
    assert name == "train-1"
    assert {trial["status"] for trial in until_settled(weft, name)} == {"done"}
    before = weft("sweep", "results", name, "--sort", "loss").out
    assert [line.split()[1] for line in before.splitlines()] == ["NAME", "v1-1", "v2-2", "v3-0"]
    assert before.count("*") == 1
    assert "1*" in before.splitlines()[1]
    weft.site.kill9()
    assert weft("sweep", "results", name, "--sort", "loss").out == before
    rows = list(csv.DictReader(weft("sweep", "results", "--csv", "--sort", "acc", "--max").out.splitlines()))
    assert [(row["v"], row["loss"], row["step"], row["status"]) for row in rows[:1]] == [("1", "1.0", "3", "done")]
    weft("sweep", "results", name, "--out", "r.png")
    assert Path("r.png").read_bytes().startswith(b"\x89PNG")
    assert weft.json("sweep", "status", name)["sweeps"][0]["statuses"] == {"done": 3}


def test_a_trial_that_ends_while_no_scheduler_is_there_keeps_its_metrics(weft: Weft) -> None:
    name = sweep(weft, "--grid", "v=1", steps=40, pause_s=0.02)
    trial = until(lambda: next((each for each in trials(weft, name) if each["metrics"]), None))
    weft.site.kill9()
    until((weft.site.paths.jobs / trial["id"] / "1" / EXIT).exists)
    (ended,) = trials(weft, name)
    until(lambda: statuses(weft, name) == "done")
    assert (trials(weft, name)[0]["step"], ended["params"]) == (40, {"v": "1"})


def test_asha_stops_the_worse_and_a_stopped_trial_resumes(weft: Weft) -> None:
    rule = ("--stop", "asha", "--stop-by", "loss", "--stop-first", "5")
    name = sweep(weft, "--list", "v=1,2,3,4", *rule, steps=40, pause_s=0.02)
    first, *others = until_settled(weft, name)
    assert first["status"] == "done", "the best is never stopped"
    stopped = [trial for trial in others if trial["status"] == "stopped"]
    assert stopped, "of four trials, at most three were the best when they arrived"
    worst = stopped[-1]
    assert worst["rungs"] == [float(worst["params"]["v"])]
    assert weft.show(worst["id"])["reason"] == "StoppedEarly"
    assert "other trials of its sweep do better" in weft("why", worst["id"]).out
    weft("release", worst["id"])
    until(lambda: weft.show(worst["id"])["status"] in ("done", "held"))
    log = weft("logs", worst["id"]).out
    assert log.startswith("from "), log
    assert int(log.split()[1]) >= 5, "it resumes where it was stopped"


def test_halving_waits_for_all_and_survives_a_killed_scheduler(weft: Weft) -> None:
    rule = ("--stop", "halving", "--stop-by", "acc", "--max", "--stop-first", "5", "--stop-factor", "3")
    # the last trial is slow: it goes on when the next scheduler is there
    lists = ("--list", "v=2,1,3", "--list", "pause=0.02,0.02,0.4")
    name = sweep(weft, *lists, *rule, steps=15, pause_s="{pause}")
    until(lambda: statuses(weft, name).startswith("stopped stopped"))
    weft.site.kill9()
    assert [trial["status"] for trial in until_settled(weft, name)] == ["stopped", "done", "stopped"]
    best = results(weft, name)
    assert (best["metric"], best["goal"]) == ("acc", "max")
    assert best["best"] == best["trials"][1]["id"]


def test_a_limit_and_an_end(weft: Weft) -> None:
    name = sweep(weft, "--grid", "v=1..4", "--max-parallel", "1", steps=1000, pause_s=0.02)
    until(lambda: statuses(weft, name).startswith("running"))
    assert statuses(weft, name) == "running blocked blocked blocked"
    (group,) = [each for each in json.loads(weft("group", "list", "--json").out)["groups"] if each["group"] == name]
    assert (group["jobs"], group["running"]) == (1, 1)
    assert len(weft.json("sweep", "stop", name, "-y")["jobs"]) == 4
    assert {trial["status"] for trial in until_settled(weft, name)} == {"cancelled"}
    assert weft.json("sweep", "stop", name)["jobs"] == []


def test_a_dry_run_prints_the_trials(weft: Weft) -> None:
    Path("t.csv").write_text("a,b\n1,x\n2,y\n")
    said = weft("sweep", "--from", "t.csv", "--gpus", "1", "--group", "dry", "--dry-run", "--", "echo", "{a}{b}")
    assert said.out.splitlines() == ["would submit dry-0: 1 GPU: echo 1x", "would submit dry-1: 1 GPU: echo 2y"]
    assert "dry" not in weft("sweep", "status").out
    drawn = (
        "sweep",
        "--random",
        "lr=log:1e-4..1e-1",
        "--trials",
        "3",
        "--seed",
        "7",
        "--dry-run",
        "--",
        "echo",
        "{lr}",
    )
    assert weft(*drawn).out == weft(*drawn).out != ""


def test_clear_errors(weft: Weft) -> None:
    for words, says in (
        (["--grid", "lr=1,2", "--", "echo", "{x}"], "{x} in the command"),
        (["--grid", "lr=1,2", "--", "echo"], "'lr' is not used"),
        (["--grid", "a=1..100", "--grid", "b=1..101", "--", "echo", "{a}{b}"], "10,100 trials, and 10,000 are allowed"),
        (["--", "echo"], "no parameters to sweep"),
        (["--grid", "a=1"], "no command to run"),
        (["--random", "a=1..2", "--", "echo", "{a}"], "--random without --trials"),
        (["--trials", "2", "--grid", "a=1", "--", "echo", "{a}"], "--trials without --random"),
        (["--grid", "a=1", "--stop-by", "loss", "--", "echo", "{a}"], "--stop-by without --stop"),
        (["--grid", "a=1", "--array", "0-3", "--", "echo", "{a}"], "--array"),
        (["--grid", "a=1", "--group", "a/b", "--", "echo", "{a}"], "--group: 'a/b' cannot be the name of a sweep"),
        (["--from", "nothing.csv", "--", "echo", "{a}"], "nothing.csv"),
        (["results", "unheard"], "unknown sweep 'unheard'"),
    ):
        assert says in weft("sweep", *words, code=None).err
    assert weft("sweep", "-q", "--grid", "a=1", "--group", "once", "--hold", "--", "echo", "{a}").out == "once\n"
    assert "there is a sweep 'once' already" in weft.fails(
        "sweep", "--grid", "a=1", "--group", "once", "--", "echo", "{a}"
    )
