"""`weft trace export`: the history of a scheduler, or of a journal, as a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
from support.running.local_scheduler import until
from support.weft_cli import Weft
from weft.sim.traces.trace import read_trace

FIGURES = (
    "jobs", "finished", "failed", "unfinished", "avg_jct_s", "makespan_s", "p50_jct_s", "p99_jct_s", "avg_queue_s",
    "avg_first_wait_s", "gpu_utilisation", "preemptions", "restarts", "fairness_max_rho",
)  # fmt: skip


def figures_of(found: dict[str, object]) -> dict[str, object]:
    return {key: found[key] for key in FIGURES}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "rules",
    [
        ["--policy", "srtf"],
        ["--policy", "tiresias"],
        ["--policy", "muri-l"],
        ["--policy", "antman"],
        ["--policy", "fifo:backfill=on", "--mtbf", "20", "--repair", "0.5"],
        ["--policy", "srsf", "--model", "muri"],
    ],
    ids=lambda rules: "-".join(rules[1::2]),
)
def test_a_simulation_exported_and_simulated_again_has_the_same_figures(capsys: Capture, rules: list[str]) -> None:
    first = as_json(capsys, "sim", "demo", "--cluster", "4x8", "--out", "out", *rules)
    as_json(capsys, "trace", "export", "out/journal.jsonl", "-o", "again.csv")
    again = as_json(capsys, "sim", "again.csv", "--cluster", "4x8", *rules)
    assert figures_of(again) == figures_of(first)


def test_a_trace_with_everything_survives(capsys: Capture, here: Path) -> None:
    (here / "all.csv").write_text(
        "job_id,submit_s,gpus,duration_s,user,name,model,memory_mb,cpus,ram_mb,priority,opportunistic,iterations,"
        "retries,gpu_model,share,labels,pinned,declared_s\n"
        "a,3,2,600,ada,first,bert,8000+9000,4,100,7,1,,2,,,,,900\n"
        "b,4.5,1,60,bo,,vgg16,,,,,0,500,,,0.5,,,\n"
        "c,5,1,30,,,none,,,,,0,,,,,,n0/1,\n"
    )
    as_json(capsys, "sim", "all.csv", "--cluster", "1x4", "--out", "out")
    as_json(capsys, "trace", "export", "out/journal.jsonl", "-o", "again.jsonl.gz")
    assert read_trace(here / "again.jsonl.gz").jobs == read_trace(here / "all.csv").jobs


def test_estimates_that_were_wrong_stay_wrong(capsys: Capture, here: Path) -> None:
    words = ["sim", "demo", "--cluster", "4x8", "--policy", "srtf", "--estimates", "lognormal:1", "--out", "out"]
    first = as_json(capsys, *words)
    as_json(capsys, "trace", "export", "out/journal.jsonl", "-o", "again.csv")
    jobs = read_trace(here / "again.csv").jobs
    assert sum(each.job.declared_s != each.work_s for each in jobs) > 190
    again = as_json(capsys, "sim", "again.csv", "--cluster", "4x8", "--policy", "fifo")
    assert again["finished"] == first["finished"] == 200


def test_an_anonymous_trace_names_nothing(capsys: Capture, here: Path) -> None:
    (here / "t.csv").write_text(
        "job_id,submit_s,gpus,duration_s,user,name,labels,pinned\n"
        "secret-1,0,1,60,ada,llm,zone=moon,\nsecret-2,1,1,60,bo,,,\nsecret-3,2,1,60,ada,,,moon0/0\n"
    )
    (here / "c.yaml").write_text("nodes:\n  - {name: moon, gpus: 4, labels: {zone: moon}}\n")
    as_json(capsys, "sim", "t.csv", "--cluster", "c.yaml", "--out", "out")
    found = as_json(capsys, "trace", "export", "out/journal.jsonl", "--anonymise", "-o", "public.csv")
    assert found["lost"] == {"labels": 1, "pinned GPUs": 1}
    text = (here / "public.csv").read_text()
    assert not [word for word in ("secret", "ada", "bo,", "llm", "moon") if word in text]
    assert [(each.job.id, each.job.user) for each in read_trace(here / "public.csv").jobs] == [
        ("0", "user0"), ("1", "user1"), ("2", "user0"),
    ]  # fmt: skip


def test_what_cannot_be_exported_is_said(capsys: Capture, here: Path) -> None:
    assert "no jobs to export" in fails(capsys, "trace", "export", "-o", "t.csv")
    (here / "notes.txt").write_text("no journal")
    assert "not a journal" in fails(capsys, "trace", "export", "notes.txt", "-o", "t.csv")
    assert "no such file" in fails(capsys, "trace", "export", "gone.db", "-o", "t.csv")
    assert "both given" in fails(capsys, "trace", "export", "notes.txt", "--scheduler", "local", "-o", "t.csv")
    (here / "t.csv").write_text("here")
    assert "exists" in fails(capsys, "trace", "export", "-o", "t.csv")
    assert "need -o FILE" in fails(capsys, "trace", "export", "--force")


def test_the_history_of_this_machine(weft: Weft, tmp_path: Path) -> None:
    weft.submit("--gpus", "0", "--", "true")
    array = weft.submit("--array", "0-2%1", "--name", "sweep", "--", "sleep", "0.2")
    low = weft.submit("--gpus", "2", "--", "sh", "-c", "sleep 0.3; test $WEFT_RUN = 2 || exec sleep 60")
    until(lambda: weft.show(low)["status"] == "running")
    weft.submit("--gpus", "2", "--priority", "3", "--", "sh", "-c", "sleep 0.2; exit 4")
    never = weft.submit("--hold", "--", "true")
    weft("cancel", never)
    running = weft.submit("--priority", "-1", "--", "sleep", "60")
    until(lambda: weft.show(low)["status"] == "done" and weft.show(running)["status"] == "running")
    out = tmp_path / "history.csv"
    said = weft("trace", "export", "-o", str(out)).err
    assert "left out 1 job: without GPUs\n" in said
    assert "left out 1 job: not ended\n" in said
    assert "left out 1 job: never run\n" in said
    assert "cannot carry limits of arrays: 3 of 5 jobs\n" in said
    assert weft("trace", "export").out == out.read_text()
    jobs = {each.job.id: each for each in read_trace(out).jobs}
    assert [name for name in jobs if name.startswith(f"{array}_")] == [f"{array}_{index}" for index in range(3)]
    assert all(0.1 <= each.work_s < 60 for each in jobs.values())
    assert jobs[low].job.gpus == 2
    assert min(each.submit_s for each in jobs.values()) == 0.0
    assert {running, never}.isdisjoint(jobs)
    assert weft.json("sim", str(out), "--cluster", "1x2")["finished"] == len(jobs) == 5
