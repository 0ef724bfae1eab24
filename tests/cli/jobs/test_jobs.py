"""The life of a job, as the commands show and change it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.weft_cli import Weft

SLEEP = ("--", "sleep", "60")


def test_a_job_is_submitted_waited_for_and_read(weft: Weft) -> None:
    out, err = weft(
        "submit", "--name", "hello", "-t", "90", "--grace", "2", "--", "sh", "-c", "echo out; echo err >&2; exit 3"
    )
    assert out.startswith("submitted job ")
    assert err == "weft: time limit: 1h 30m\nweft: grace: 2s\n"
    job = out.split()[2]
    assert weft("wait", job, code=3).err == f"weft: job {job} is failed, exit code 3\n"
    assert weft("logs", job).out == "out\nerr\n"
    found = weft.show(job)
    assert (found["name"], found["state"], found["exit_code"], found["time_limit_s"]) == ("hello", "F", 3, 5400)
    shown = weft("show", job).out
    assert "command        sh -c 'echo out; echo err >&2; exit 3'\n" in shown
    assert "exit code      3\n" in shown


def test_the_queue_looks_like_squeue(weft: Weft) -> None:
    first, second = weft.submit("--name", "a b", "--gpus", "2", *SLEEP), weft.submit("--name", "second", *SLEEP)
    until(lambda: weft.show(first)["status"] == "running")
    head, running, waiting = weft("queue").out.splitlines()
    assert head.split() == ["JOBID", "NAME", "USER", "ST", "TIME", "GPUS", "NODE(REASON)"]
    assert running.split()[:3] == [first, "a", "b"]
    assert running.split()[4:5] == ["R"]
    assert running.rstrip().endswith("[0,1]")
    assert waiting.split()[0] == second
    assert waiting.rstrip().endswith("(Resources)")
    assert weft("queue", "-o", "id,st,priority", "--no-header").out.split() == [first, "R", "0", second, "PD", "0"]
    assert weft("ps").out.splitlines()[0] == head
    found = weft.json("status")
    assert [job["id"] for job in found["jobs"]] == [first, second]
    assert (found["running"], found["waiting"], found["more"]) == (1, 1, 0)
    assert "1 more job;" in weft("queue", "--limit", "1").err
    assert weft().out.splitlines()[0] == head, "weft alone shows the queue"


def test_why_tells_position_and_who_is_ahead(weft: Weft) -> None:
    first = weft.submit("--gpus", "2", "-t", "10", *SLEEP)
    second, third = weft.submit("--gpus", "2", *SLEEP), weft.submit("--gpus", "2", *SLEEP)
    until(lambda: weft.show(first)["status"] == "running")
    lines = weft("why", third).out.splitlines()
    assert lines[0] == f"job {third} (sleep) is waiting"
    assert "  position: 2 of 2 waiting" in lines
    assert f"  ahead: {second} (" in "\n".join(lines)
    assert any(line.startswith("  expected start: ") and f"when {first} has ended" in line for line in lines)
    found = weft.json("explain", second)
    assert (found["position"], found["reasons"][0]["code"]) == (1, "Resources")
    assert found["expected_start"].endswith("Z")
    assert "run 1 on " in weft("why", first).out


def test_hold_release_and_set(weft: Weft) -> None:
    job = weft.submit("--hold", "--name", "held", *SLEEP)
    assert weft.show(job)["state"] == "H"
    assert "JobHeldUser" in weft("why", "held").out
    assert weft("set", job, "priority=7", "time=2h", "name=other").out == f"changed {job}\n"
    found = weft.show("other")
    assert (found["priority"], found["time_limit_s"], found["status"]) == (7, 7200, "held")
    assert weft("release", job).out == f"released {job}\n"
    until(lambda: weft.show(job)["status"] == "running")
    assert "only a waiting job" in weft("set", job, "priority=1", code=6).err
    assert "not held" in weft("release", job, code=6).err
    assert weft.json("hold", job) == {"schema": 1, "jobs": [job], "refused": {}}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("priorty=1", "unknown key to set 'priorty'\n  known: priority, "),
        ("gpus=9", "needs 9 GPUs"),
        ("gpus", "'gpus' is not KEY=VALUE"),
        ("name=a/b", "name: 'a/b' cannot be a name"),
    ],
)
def test_a_wrong_setting_changes_nothing(weft: Weft, setting: str, expected: str) -> None:
    job = weft.submit("--hold", *SLEEP)
    before = weft.show(job)
    assert expected in weft.fails("set", job, setting)
    assert {**weft.show(job), "time_s": 0} == {**before, "time_s": 0}


def test_a_job_cannot_come_after_itself(weft: Weft) -> None:
    first = weft.submit("--hold", *SLEEP)
    second = weft.submit("--after", first, *SLEEP)
    assert "cyclic dependencies" in weft.fails("set", first, f"after={second}")


def test_cancel(weft: Weft) -> None:
    running = weft.submit("--gpus", "2", *SLEEP)
    until(lambda: weft.show(running)["status"] == "running")
    waiting = weft.submit("--name", "doomed", *SLEEP)
    assert weft("cancel", "doomed").out == f"cancelled {waiting}\n"
    assert weft("wait", waiting, code=143).err == f"weft: job {waiting} is cancelled\n"
    weft("kill", running)
    assert weft("wait", running, code=128 + signal.SIGTERM).err.startswith(f"weft: job {running} is cancelled")
    assert f"job {running} is unchanged: it is cancelled already" in weft("cancel", running, code=6).err
    weft.submit("--array", "0-3", "--hold", *SLEEP)
    assert len(weft.json("cancel", "--all")["jobs"]) == 4


def test_dependencies_on_any_end_and_on_a_failure(weft: Weft) -> None:
    bad = weft.submit("--hold", "--gpus", "0", "--name", "bad", "--", "false")
    cleanup = weft.submit("-d", f"afterany:{bad}", "--gpus", "0", "--", "true")
    report = weft.submit("--after", "afternotok:bad", "--gpus", "0", "--", "true")
    both = weft.submit("--after", f"afterany:{cleanup},{report}", "--gpus", "0", "--", "true")
    assert weft.show(report)["after"] == [f"afternotok:{bad}"]
    assert weft.show(both)["spec"]["after"] == [report, f"afterany:{cleanup}"]
    assert f"comes after a failure of {bad}" in weft("why", report).out
    assert "must end as afterok and as afterany" in weft.fails(
        "submit", "--after", f"{bad},afterany:{bad}", "--", "true"
    )
    weft("release", bad)
    weft("wait", bad, code=1)
    weft("wait", cleanup, report, both)


def test_a_singleton_waits_for_jobs_of_its_name(weft: Weft) -> None:
    first = weft.submit("--hold", "--name", "nightly", "--gpus", "0", "--", "true")
    other = weft.submit("--hold", "--name", "other", "--gpus", "0", "--", "true")
    second = weft.submit("--dependency", "singleton", "--name", "nightly", "--gpus", "0", "--", "true")
    assert weft.show(second)["after"] == [f"afterany:{first}"]
    array = weft.submit("-d", "singleton", "--name", "nightly", "--array", "0-2", "--gpus", "0", "--", "true")
    assert weft.json("show", array)["jobs"][0]["after"] == [f"afterany:{first}", f"afterany:{second}"]
    weft("cancel", first)
    weft("wait", second, array)
    assert weft.show(other)["status"] == "held"
    weft("cancel", other)


def test_show_has_the_gpu_model_the_grace_and_the_exits_that_requeue(weft: Weft) -> None:
    flags = ("--gpu-model", "RTX3090", "--grace", "45s", "--requeue-exit", "99,100")
    shown = weft("show", weft.submit("--hold", *flags, "--", "true")).out
    found = {line[:14].strip(): line[14:].strip() for line in shown.splitlines()}
    assert {"RTX3090", "99, 100"} <= set(found.values())
    assert any(float(value.rstrip("s")) == 45 for key, value in found.items() if key.startswith("grace"))
    weft("cancel", "@")


def test_dependencies_and_names_of_jobs(weft: Weft) -> None:
    first = weft.submit("--hold", "--name", "prep", "--", "true")
    second = weft.submit("--after", "prep", "--", "true")
    third = weft.submit("--dependency", f"afterok:{first}:{second}", "--", "true")
    assert weft.show("@")["id"] == third
    assert weft.show("@~1")["id"] == second
    assert weft.show(second)["reason"] == "Dependency"
    assert [job["id"] for job in weft.json("show", f"{first}-{third}")["jobs"]] == [first, second, third]
    weft("release", "prep")
    assert weft("wait", f"{first}-{third}").out == ""
    bad = weft.submit("--", "false")
    behind = weft.submit("--after", bad, "--", "true")
    weft("wait", behind, code=143)
    assert "(dependency)" in weft("why", behind).out


def test_arrays(weft: Weft) -> None:
    said = weft("submit", "--array", "1,3-5%2", "--name", "sweep", "--", "sh", "-c", "exit $WEFT_ARRAY_TASK_ID").out
    job = said.split()[2]
    assert said == f"submitted job {job} (sweep): 4 tasks\n"
    tasks = [f"{job}_{index}" for index in (1, 3, 4, 5)]
    assert [each["id"] for each in weft.json("wait", job, code=1)["jobs"]] == tasks
    assert weft("wait", tasks[2], code=4).out == ""
    assert weft("wait", "--any", job, code=None).err.count("\n") == 1
    held = weft.json("submit", "--array", "0-9%1", "--hold", "--", "true")
    assert len(held["ids"]) == 10
    assert held["jobs"][0]["tasks"] == held["ids"]
    assert {weft.show(each)["state"] for each in held["ids"]} == {"H"}


def test_retries_and_requeue(weft: Weft) -> None:
    job = weft.submit("--retries", "2", "--", "sh", "-c", "[ $WEFT_RESTART_COUNT = 2 ]")
    weft("wait", job)
    found = weft.show(job)
    assert (found["run"], found["failures"]) == (3, 2)
    job = weft.submit("--requeue-exit", "9", "--", "sh", "-c", "echo run $WEFT_RUN; [ $WEFT_RUN = 2 ] || exit 9")
    weft("wait", job)
    assert weft("logs", job).out == "run 2\n"
    assert weft("logs", "--run", "1", job).out == "run 1\n"
    assert "has had 2 runs" in weft("logs", "--run", "3", job, code=3).err
    assert weft("logs", "-f", job).out == "run 2\n"
    job = weft.submit("--retries", "1", "--gpus", "0", "--", "sh", "-c", "[ $WEFT_RUN = 1 ] && exit 3; sleep 60")
    until(lambda: weft.show(job)["run"] == 2)
    assert "last exit code  3\n" in weft("show", job).out, "the code is that of the run before"
    weft("cancel", "-y", job)


def test_restart_and_history_and_clean(weft: Weft) -> None:
    good, bad = weft.submit("--", "true"), weft.submit("--name", "bad", "--", "false")
    weft("wait", good, bad, code=1)
    assert weft.json("restart", "--failed", good)["jobs"] == []
    (again,) = weft.json("restart", "--failed", good, bad)["jobs"]
    assert weft.show(again)["name"] == "bad"
    weft("wait", again, code=1)
    listed = [job["id"] for job in weft.json("history", "--since", "1h")["jobs"]]
    assert listed.index(again) < listed.index(bad)
    assert weft("history", "--limit", "1").out.splitlines()[1].split()[:1] == [again]
    assert again in weft("queue", "-a").out
    assert weft("clean", again).out == f"forgot {again}\n"
    assert "there is no job" in weft("show", again, code=3).err
    running = weft.submit(*SLEEP)
    assert "cancel it first" in weft("clean", running, code=6).err
    weft("clean", "--all")
    assert [job["id"] for job in weft.json("queue", "-a")["jobs"]] == [running]


def test_a_key_submits_once(weft: Weft) -> None:
    assert weft.submit("--key", "once", "--", "true") == weft.submit("--key", "once", "--", "true")


def test_what_a_job_is_given(weft: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"HF_HOME": "/hf", "HF_TOKEN": "t", "WANDB_API_KEY": "k", "ODD": "1", "MINE": "2"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "sub").mkdir()
    words = ["--env", "MINE", "--env", "A=b c", "--chdir", "sub", "--param", "lr=$(touch evil)", "--gpus", "2"]
    job = weft.submit(*words, "--", "sh", "-c", 'pwd; echo "{params.lr}"; env; cat $WEFT_PARAMS_FILE')
    weft("wait", job)
    here, *lines = weft("logs", job).out.splitlines()
    assert Path(here) == tmp_path / "sub"
    assert {"HF_HOME=/hf", "MINE=2", "A=b c", "WEFT_PARAM_LR=$(touch evil)", "CUDA_VISIBLE_DEVICES=0,1"} <= set(lines)
    assert not [line for line in lines if line.startswith(("HF_TOKEN", "WANDB_API_KEY", "ODD"))]
    assert json.loads(lines[-1]) == {"lr": "$(touch evil)"}
    job = weft.submit("--env-all", "--", "env")
    weft("wait", job)
    assert "HF_TOKEN=t\n" in weft("logs", job).out
    assert not list(tmp_path.rglob("evil"))


def test_a_dry_run_queues_nothing(weft: Weft) -> None:
    before = len(weft.json("queue", "-a")["jobs"])
    assert weft("submit", "--dry-run", "--gpus", "2", "--", "echo", "hi").out == "would submit echo: 2 GPUs: echo hi\n"
    assert weft.json("submit", "--dry-run", "--", "true")["ids"] == []
    assert "needs 3 GPUs" in weft.fails("submit", "--dry-run", "--gpus", "3", "--", "true")
    assert len(weft.json("queue", "-a")["jobs"]) == before


def test_progress_is_shown_where_there_is_any(weft: Weft) -> None:
    bar = r"printf '\r 25%%|##      | 25/100 [00:10<00:30,  2.5it/s]'; sleep 60"
    job = weft.submit("--", "sh", "-c", bar)
    until(lambda: weft.show(job)["progress"])
    head, line = weft("queue").out.splitlines()
    assert ("PROGRESS" in head, "25%" in line, "30s" in line) == (True, True, True)


def test_flags_as_slurm_has_them(weft: Weft) -> None:
    job = weft.submit("-J", "mine", "--gres", "gpu:RTX3090:2", "-t", "2-12:00:00", "sh", "-c", "exit 0")
    found = weft.show(job)
    assert (found["name"], found["gpus"], found["time_limit_s"]) == ("mine", 2, 216000)
    assert found["command"] == ["sh", "-c", "exit 0"], "-- may be left out"
    assert "needs 3 GPUs" in weft.fails("submit", "--gres=gpu:3", "true")


def test_a_task_of_an_array_keeps_its_index(weft: Weft) -> None:
    job = weft.submit("--array", "3", "--", "sh", "-c", "exit $WEFT_ARRAY_TASK_ID")
    weft("wait", job, code=3)
    (again,) = weft.json("restart", job)["jobs"]
    weft("wait", again, code=3)


def test_memory_of_each_rank_and_sharing(weft: Weft) -> None:
    job = weft.submit("--gpus", "2", "--memory", "8G,4096", *SLEEP)
    assert weft.show(job)["memory_mb"] == [8192, 4096]
    weft("cancel", job)
    weft("wait", job, code=None)
    shared = [weft.submit("--max-jobs-per-gpu", "2", "--gpu-ids", "1", *SLEEP) for _ in range(3)]
    until(lambda: [weft.show(each)["status"] for each in shared] == ["running", "running", "waiting"])
    gpus = weft.json("gpus")["gpus"]
    assert [gpu["jobs"] for gpu in gpus] == [[], shared[:2]]
    assert gpus[1]["reserved_mb"] == 8192
