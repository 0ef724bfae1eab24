"""Jobs on a real cluster of one server and two workers: they run, write, end, and outlive whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until

UP = "echo up $$; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster("n1", "n2") as made:
        yield made


def test_a_job_runs_and_its_log_is_streamed(here: Cluster) -> None:
    job = here.submit("sh", "-c", "echo on $WEFT_NODELIST with $WEFT_GPU_IDS; seq 20000; exit 3", flags=("--gpus", "2"))
    assert here.wait(job) == 3
    found = here.job(job)
    assert (found["status"], found["last_exit_code"]) == ("failed", 3)
    text = here.logs(job)
    assert text.splitlines()[0] in ("on n1 with 0,1", "on n2 with 0,1")
    assert text.splitlines()[1:] == [str(each) for each in range(1, 20001)]
    assert here.logs(job, "-n", "2") == "19999\n20000\n"
    assert here.weft("run", "--", "sh", "-c", "echo followed; exit 7", code=7).endswith("followed\n")


def test_a_cancelled_job_is_told_and_ends(here: Cluster) -> None:
    job = here.submit("sh", "-c", f"trap 'echo told; exit 0' TERM; {UP}")
    until(lambda: here.where(job))
    (node,) = here.where(job)
    here.says(node, job, "up")
    here.weft("cancel", job, "-y")
    until(lambda: here.job(job)["status"] == "cancelled")
    assert here.logs(job).endswith("told\n")


def test_a_time_limit_ends_it(here: Cluster) -> None:
    job = here.submit("sh", "-c", UP, flags=("--time", "1s"))
    assert here.wait(job) != 0
    assert (here.job(job)["status"], here.job(job)["why"]) == ("failed", "timeout")


def test_a_directory_that_is_not_there_is_said(here: Cluster) -> None:
    gone = here.root / "gone"
    gone.mkdir()
    job = here.submit("true", flags=("--chdir", str(gone), "--hold"))
    gone.rmdir()
    here.weft("release", job)
    assert here.wait(job) == 126
    assert here.job(job)["why"] == "bad-directory"
    assert "as working directory" in here.logs(job)


def test_what_a_job_gets_of_its_environment(here: Cluster) -> None:
    here.env["LC_ALL"], here.env["HF_TOKEN"] = "C.UTF-8", "secret"
    try:
        job = here.submit("env", flags=("--env", "LR=0.1"))
    finally:
        del here.env["LC_ALL"], here.env["HF_TOKEN"]
    assert here.wait(job) == 0
    env = dict(line.split("=", 1) for line in here.logs(job).splitlines() if "=" in line)
    assert (env["LR"], env["LC_ALL"]) == ("0.1", "C.UTF-8")
    assert env["HOME"] == str(here.root)
    assert "HF_TOKEN" not in env


def test_a_worker_does_not_keep_the_environment_of_an_ended_job(here: Cluster) -> None:
    os.mkfifo(here.root / "door")
    job = here.submit(
        "sh", "-c", "echo up; read -r _ < door", flags=("--env", "KEY=hush-hush", "--chdir", str(here.root))
    )
    until(lambda: here.where(job))
    (node,) = here.where(job)
    here.says(node, job, "up")
    spec = here.run_folder(node, job) / "spec.json"
    assert "hush-hush" in spec.read_text()
    (here.root / "door").write_text("\n")
    assert here.wait(job) == 0
    found = spec.read_text()
    assert "hush-hush" not in found
    assert "WEFT_GPU_IDS" in found


def test_progress_reaches_whoever_asks(here: Cluster) -> None:
    script = "from weft import train\nimport time\nfor n in range(1, 400): train.progress(n, 400); time.sleep(0.05)"
    job = here.submit(sys.executable, "-c", script)
    until(lambda: ((here.job(job).get("progress") or {}).get("step") or 0) > 5)
    assert here.job(job)["progress"]["total"] == 400
    here.weft("cancel", job, "-y")


@pytest.mark.parametrize("reported", ["before", "while"])
def test_the_last_metrics_of_a_run_that_ends_without_a_server_are_kept(here: Cluster, reported: str) -> None:
    """The metrics were reported before the server was killed, or while it was away; the run ends while it is away."""
    go = here.root / f"go-metrics-{reported}"
    report = "train.progress(7, 10, loss=0.25)"
    early, late = (report, "pass") if reported == "before" else ("train.progress(1, 10, loss=9.0)", report)
    job = here.submit(
        sys.executable, "-uc",
        f"import os, time\nfrom weft import train\n{early}\nprint('up', os.getpid())\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n{late}\n",
    )  # fmt: skip
    until(lambda: (here.job(job).get("progress") or {}).get("metrics"))
    (node,) = here.where(job)
    here.says(node, job, "up")
    pid = int((here.run_folder(node, job) / "output.log").read_text().split()[1])
    here.kill9("server")
    go.touch()
    until(lambda: not Path(f"/proc/{pid}").exists())
    here.serve()
    found = here.until_status(job, "done")
    assert (found["run"], found["progress"]["step"], found["progress"]["metrics"]) == (1, 7, {"loss": 0.25})
    assert found["series"] == {"loss": [0.25]}, "the report came once"
    here.kill9("server")
    here.serve()
    assert here.job(job)["progress"]["metrics"] == {"loss": 0.25}, "the journal has it"


def test_the_metrics_of_a_run_that_ends_while_its_worker_is_away_are_kept(here: Cluster) -> None:
    go = here.root / "go-unsent"
    script = (
        "import os, time\nfrom weft import train\nprint('up')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\ntrain.progress(7, 10, loss=0.25)\n"
    )
    job = here.submit(sys.executable, "-uc", script)
    until(lambda: here.where(job))
    (node,) = here.where(job)
    here.says(node, job, "up")
    here.kill9(node)
    go.touch()
    until((here.run_folder(node, job) / "exit.json").exists)
    here.work(node)
    found = here.until_status(job, "done")
    assert (found["run"], found["progress"]["step"], found["progress"]["metrics"]) == (1, 7, {"loss": 0.25})


@pytest.mark.parametrize("who", ["worker", "server", "both"])
def test_whoever_is_killed_the_job_goes_on_as_the_same_process(here: Cluster, who: str) -> None:
    go = here.root / f"go-{who}"
    job = here.submit("sh", "-c", f"echo up $$; while ! [ -e {go} ]; do sleep 0.05; done; echo end $$; exit 5")
    until(lambda: here.where(job))
    (node,) = here.where(job)
    here.says(node, job, "up")
    until(lambda: here.job(job)["status"] == "running")
    if who in ("worker", "both"):
        here.kill9(node)
    if who in ("server", "both"):
        here.kill9("server")
        here.serve()
    if who in ("worker", "both"):
        here.work(node)
    until(lambda: here.connected() == {"n1", "n2"})
    assert here.job(job)["status"] == "running"
    go.touch()
    assert here.wait(job) == 5
    found = here.job(job)
    assert (found["run"], found["requeues"], found["last_exit_code"]) == (1, 0, 5)
    begin, end = here.logs(job).split("\n")[:2]
    assert begin.removeprefix("up ") == end.removeprefix("end ")


def test_a_job_that_is_killed_with_its_shim_counts_as_lost(here: Cluster) -> None:
    job = here.submit("sh", "-c", "echo up $$; sleep 1000", flags=("--retries", "0"))
    until(lambda: here.where(job))
    (node,) = here.where(job)
    here.says(node, job, "up")
    pid = int((here.run_folder(node, job) / "output.log").read_text().split()[1])
    os.kill(pid, signal.SIGKILL)
    assert here.wait(job) == 137


def test_a_job_that_ends_while_its_worker_is_away_runs_once(here: Cluster) -> None:
    go = here.root / "go-ended"
    job = here.submit("sh", "-c", f"echo up; while ! [ -e {go} ]; do sleep 0.05; done")
    until(lambda: here.where(job))
    (node,) = here.where(job)
    here.says(node, job, "up")
    here.weft("worker", "--id", node, "--stop", "--keep-jobs")
    assert here.processes.pop(node).wait(60) == 0
    go.touch()
    until((here.run_folder(node, job) / "exit.json").exists)
    here.work(node)
    assert here.wait(job) == 0
    assert here.job(job)["run"] == 1


def test_a_snapshot_is_run_from_where_it_was_taken(here: Cluster) -> None:

    tree = here.root / "repo"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "hello.txt").write_text("as it was\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=tree, check=True, env=here.env)
    job = here.submit("cat", "sub/hello.txt", flags=("--snapshot", "--chdir", str(tree), "--hold"))
    (tree / "sub" / "hello.txt").write_text("changed since\n")
    here.weft("release", job)
    assert here.wait(job) == 0
    assert here.logs(job) == "as it was\n"


def test_one_process_for_each_gpu_of_a_gang_over_both_nodes(here: Cluster) -> None:
    job = here.submit("sh", "-c", "echo rank $RANK of $WORLD_SIZE", flags=("--gpus", "4", "--per-gpu"))
    assert here.wait(job) == 0
    written = [here.logs(job, "--rank", rank) for rank in ("0", "1")]
    assert sorted("".join(written).splitlines()) == [f"rank {rank} of 4" for rank in range(4)]
