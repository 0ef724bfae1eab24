"""The `weft` command as people and scripts meet it."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
from weft.cli.main import COMMANDS, main
from weft.scheduling.plugins import registry

pytestmark = pytest.mark.usefixtures("here")
SIM = ["sim", "demo", "--cluster", "4x8"]
FIGURES = {
    "avg_jct_s", "makespan_s", "p50_jct_s", "p99_jct_s", "avg_queue_s", "avg_first_wait_s", "gpu_utilisation",
    "preemptions", "restarts", "fairness_max_rho",
}  # fmt: skip
SUMMARY = FIGURES | {
    "schema", "trace", "jobs", "policy", "placement", "model", "cluster", "gpus", "seed", "cpu_s", "facts",
    "facts_per_s", "skipped", "finished", "unfinished", "failed",
}  # fmt: skip

WEFT = "job_id,submit_s,gpus,duration_s\n"


# ---- commands


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(capsys: Capture, words: list[str]) -> None:
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "simulate"])
def test_help_of_a_command_has_an_example(capsys: Capture, command: str) -> None:
    assert main([command, "--help"]) == 0
    assert "example" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_policies_in_the_help_are_there_with_their_options(capsys: Capture, command: str) -> None:
    main([command, "--help"])
    for name in re.findall(r"(?:--policy|operate policy) ([a-z][a-z0-9-]*(?::[a-z]\S*)?)", capsys.readouterr().out):
        assert registry.load_policy(name)


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == main(["version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("weft 0.")
    assert as_json(capsys, "version")["version"] == first.removeprefix("weft ")


def test_an_unknown_command_gets_the_nearest(capsys: Capture) -> None:
    assert "unknown command 'simm'\n  the nearest is sim; " in fails(capsys, "simm", "demo")


def test_a_flag_before_the_command(capsys: Capture) -> None:
    assert "a command comes first" in fails(capsys, "--cluster", "4x8", "sim")


@pytest.mark.parametrize("flag", ["--bogus", "--clust=4x8"])
def test_an_unknown_flag(capsys: Capture, flag: str) -> None:
    assert f"unknown option {flag.partition(chr(61))[0]!r}" in fails(capsys, *SIM, flag)


# ---- sim


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias:thresholds=100+2000", "muri-s"])
@pytest.mark.parametrize("model", ["real", "muri"])
def test_sim_json(capsys: Capture, policy: str, model: str) -> None:
    found = as_json(capsys, *SIM, "--policy", policy, "--model", model)
    assert set(found) == SUMMARY
    assert (found["trace"], found["jobs"], found["gpus"], found["cluster"]) == ("demo", 200, 32, "4x8")
    assert (found["policy"], found["model"], found["skipped"], found["unfinished"]) == (policy, model, [], 0)
    assert 0 < float(str(found["gpu_utilisation"])) <= 1


def test_weaves_are_simulated_in_the_order_that_the_flags_name(capsys: Capture) -> None:
    def average(*words: str) -> object:
        return as_json(capsys, *SIM, "--policy", "muri-l", *words)["avg_jct_s"]

    slots = average("--order", "slots", "--contention", "none")
    assert average() == average("--order", "fair", "--contention", "none") != slots
    assert average("--order", "fair", "--contention", "muri") != average("--order", "fair")
    assert average("--model", "muri") == average("--model", "muri", "--order", "slots", "--contention", "muri")
    found = as_json(capsys, *SIM, "--policy", "muri-l:order=fifo", "--order", "slots", "--contention", "none")
    assert (found["avg_jct_s"], found["order"], found["contention"]) == (slots, "slots", "none"), "the flag wins"


def test_sim_names_the_placement_that_was_used(capsys: Capture) -> None:
    assert as_json(capsys, *SIM)["placement"] == "packed"
    assert as_json(capsys, *SIM, "--placement", "spread")["placement"] == "spread"
    assert as_json(capsys, *SIM, "--model", "muri", "--policy", "dlas-gpu")["placement"] == "count"


def test_sim_piped_is_key_tab_value(capsys: Capture) -> None:
    assert main(SIM) == 0
    out, err = capsys.readouterr()
    pairs = dict(line.split("\t") for line in out.splitlines())
    assert pairs["policy"] == "fifo"
    assert pairs.keys() >= FIGURES
    assert err == ""
    assert "\x1b" not in out


def test_colour_is_there_when_asked_for(capsys: Capture) -> None:
    assert main(["compare", "demo", "--policies", "fifo,srtf", "--color", "always"]) == 0
    assert "\x1b[1;32m" in capsys.readouterr().out


def test_out_and_metrics_agree_with_what_was_printed(capsys: Capture, here: Path) -> None:
    printed = as_json(capsys, *SIM, "--policy", "muri-s", "--out", "out")
    assert json.loads((here / "out" / "summary.json").read_text()) == printed
    found = as_json(capsys, "metrics", "out/job.csv")
    assert {key: found[key] for key in FIGURES | {"jobs"}} == {key: printed[key] for key in FIGURES | {"jobs"}}
    assert main(["metrics", "out/job.csv"]) == 0
    assert f"avg_jct_s\t{printed['avg_jct_s']}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "makespan_s"), [("real", 20.0), ("muri", 120.0)])
def test_the_makespan_of_muri_is_the_last_end(capsys: Capture, here: Path, model: str, makespan_s: float) -> None:
    """Alone from 100 s on, for 20 s; the start-up time is paid first (real) or never (muri)."""
    (here / "t.csv").write_text("job_id,submit_s,gpus,duration_s,model\na,100,1,20,vgg16\n")
    printed = as_json(capsys, "sim", "t.csv", "--cluster", "1x1", "--model", model, "--out", "out")
    start_s = 7.0 if model == "real" else 0.0
    assert printed["makespan_s"] == makespan_s + start_s
    assert printed["gpu_utilisation"] == pytest.approx((20 + start_s) / (makespan_s + start_s))
    found = as_json(capsys, "metrics", "out/job.csv")
    assert {key: found[key] for key in FIGURES} == {key: printed[key] for key in FIGURES}


def test_metrics_without_a_cluster_csv(capsys: Capture, here: Path) -> None:
    printed = as_json(capsys, *SIM, "--out", "out")
    (here / "out" / "cluster.csv").unlink()
    assert as_json(capsys, "metrics", "out/job.csv")["gpu_utilisation"] is None
    assert main(["metrics", "out/job.csv"]) == 0
    assert "gpu_utilisation\t-\n" in capsys.readouterr().out
    assert as_json(capsys, "metrics", "out/job.csv", "--gpus", "32")["gpu_utilisation"] == printed["gpu_utilisation"]


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias", "muri-s"])
def test_same_seed_same_journal(capsys: Capture, here: Path, policy: str) -> None:
    rows = (f"{n},{n * 40},{1 + n % 4},{n * 37 % 900 + 9}\n" for n in range(60))
    (here / "t.csv").write_text(WEFT + "".join(rows))
    for out, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        words = ["sim", "t.csv", "--cluster", "2x4", "--policy", policy, "--seed", seed, "--out", out]
        assert main(words) == 0, capsys.readouterr().err
    journals = [(here / out / "journal.jsonl").read_bytes() for out in "abc"]
    assert journals[0] == journals[1]
    assert journals[0] != journals[2], "another seed draws other models"


def test_infeasible_jobs(capsys: Capture, here: Path) -> None:
    err = fails(capsys, "sim", "demo", "--cluster", "1x8", "--out", "out")
    assert "job 40 can never run: it needs 16 GPUs; the cluster has 8; 8 more are like it" in err
    assert "--skip-infeasible" in err
    assert not list(here.iterdir())
    assert main(["sim", "demo", "--cluster", "1x8", "--skip-infeasible", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["jobs"], len(found["skipped"]), found["skipped"][0]) == (191, 9, "40")
    assert "left out 9 of 200 jobs" in err
    assert "needs 16 GPUs" in err


IDLE = """
from dataclasses import dataclass
from weft.scheduling.core.ports import Replanner

@dataclass(frozen=True)
class Nobody(Replanner):
    def key(self, job, now):
        return 0.0

    def rank(self, view):
        return []
"""


def test_jobs_that_never_end_are_a_failure_after_all_is_printed(capsys: Capture, here: Path) -> None:
    (here / "idle.py").write_text(IDLE)
    (here / "t.csv").write_text(f"{WEFT}a,0,1,5\nb,1,1,5\nc,2,1,5\n")
    words = ["sim", "t.csv", "--cluster", "1x1", "--policy", "idle.py:Nobody"]
    assert main([*words, "--out", "out", "--json"]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["jobs"], found["finished"], found["unfinished"]) == (3, 0, 3)
    assert "3 jobs never ended and are not in the figures: a, b, c" in err
    assert as_json(capsys, "metrics", "out/job.csv")["unfinished"] == 3
    assert main(words) == 1
    assert "jobs\t3\nfinished\t0\n" in capsys.readouterr().out


DRIFTS = """
from dataclasses import dataclass
from weft.scheduling.core.ports import Policy

@dataclass(frozen=True)
class Drifts(Policy):
    def key(self, job, now):
        return job.remaining(now) - (now - job.submitted_at) / 10

@dataclass(frozen=True)
class Ages(Policy):
    preempts = backfill = True

    def key(self, job, now):
        return job.remaining(now) + job.submitted_at / 10

    def slope(self, job):
        return -job.rate
"""


def test_a_key_that_changes_while_a_job_waits_is_found(capsys: Capture, here: Path) -> None:
    (here / "own.py").write_text(DRIFTS)
    assert main([*SIM, "--policy", "own.py:Drifts", "--check-keys"]) == 1
    err = capsys.readouterr().err
    assert re.search(
        r"policy Drifts has a key that changes while a job waits: job \d+ has waited since .* its key", err
    )
    assert f"({here}/own.py:7)" in err
    assert main([*SIM, "--policy", "own.py:Ages", "--check-keys"]) == 0
    assert main([*SIM, "--policy", "own.py:Drifts"]) == 0


def test_gpu_models_without_speeds_say_so(capsys: Capture, here: Path) -> None:
    (here / "mixed.yaml").write_text(
        "nodes:\n- {count: 2, gpus: 8, gpu_model: V100}\n- {count: 2, gpus: 8, gpu_model: K80}\n"
    )
    words = "the cluster mixes GPU models (K80, V100), whose speeds are not known: a job takes as long on each"
    for command in (["sim", "demo"], ["compare", "demo", "--policies", "fifo,srsf"]):
        assert main([*command, "--cluster", "mixed.yaml"]) == 0
        assert capsys.readouterr().err.count(words) == 1
        assert main([*command, "--cluster", "4x8"]) == 0
        assert "mixes" not in capsys.readouterr().err


@pytest.mark.parametrize("when", [[], ["--at", "6000"]], ids=["as submitted", "later"])
def test_explain(capsys: Capture, when: list[str]) -> None:
    pytest.importorskip("weft.scheduling.core.explain")
    assert main([*SIM, "--explain", "50", *when]) == 0
    assert "50" in capsys.readouterr().out
    assert as_json(capsys, *SIM, "--explain", "50", *when)["policy"] == "fifo"


# ---- bad input, end to end

BAD_TRACES = {
    "missing column": ("job_id,submit_s,gpus\na,0,1\n", "t.csv:1: "),
    "negative GPUs": (f"{WEFT}a,0,1,5\nb,0,-1,5\n", "t.csv:3: bad gpus '-1'"),
    "not a number": (f"{WEFT}a,0,1,soon\n", "t.csv:2: bad duration_s 'soon'"),
    "duplicate ids": (f"{WEFT}a,0,1,5\n\na,0,1,5\n", "t.csv:4: job id 'a' occurs twice"),
    "larger than the cluster": (f"{WEFT}late,9,64,5\nearly,0,1,5\n", "t.csv:2: job late can never run: it needs 64"),
    "nothing feasible": (f"{WEFT}a,9,64,5\n", "t.csv:2: no job of the trace fits 4x8"),
    "empty file": ("", "t.csv:1: an empty file"),
    "no jobs": (WEFT, "t.csv:1: no jobs"),
    "no format": ("a,b\n1,2\n", "t.csv:1: unknown trace format"),
    "too few cells": (f"{WEFT}a,0\n", "t.csv:2: too few cells"),
}
BAD_CLUSTERS = {
    "not a mapping": ("- 1\n", "c.yaml:1"),
    "unknown key": ("nodes:\n  - count: 1\n    gpsu: 8\n", "c.yaml:3"),
    "negative": ("nodes:\n  - count: 1\n    gpus: -8\n", "c.yaml:3"),
    "empty": ("", "c.yaml:1"),
}


@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
@pytest.mark.parametrize(("text", "says"), BAD_TRACES.values(), ids=BAD_TRACES)
def test_a_bad_trace(capsys: Capture, here: Path, text: str, says: str, json_too: bool) -> None:
    (here / "t.csv").write_text(text)
    words = ["sim", "t.csv", "--cluster", "4x8", "--out", "out", *(["--json"] if json_too else [])]
    err = fails(capsys, *words)
    if json_too:
        found = json.loads(err)["error"]
        assert found.keys() == {"code", "message", "hint"}
        assert says in found["message"]
        assert found["hint"]
    else:
        assert f"weft: error: {says}" in err
    assert [entry.name for entry in here.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(("text", "says"), BAD_CLUSTERS.values(), ids=BAD_CLUSTERS)
def test_a_bad_cluster(capsys: Capture, here: Path, text: str, says: str) -> None:
    (here / "c.yaml").write_text(text)
    assert says in fails(capsys, "sim", "demo", "--cluster", "c.yaml", "--out", "out")
    assert [entry.name for entry in here.iterdir()] == ["c.yaml"]


def test_a_truncated_gzip(capsys: Capture, here: Path) -> None:
    (here / "t.csv.gz").write_bytes(gzip.compress((WEFT + "a,0,1,5\n" * 9).encode())[:-9])
    assert "t.csv.gz:11: truncated gzip" in fails(capsys, "sim", "t.csv.gz", "--cluster", "4x8")


def test_the_line_of_a_job_that_does_not_fit_is_that_of_the_file(capsys: Capture, here: Path) -> None:
    """Rows are sorted by submission, ids may be missing: the error still points into the file."""
    (here / "t.csv").write_text(f"{WEFT},5,1,5\n,3,64,5\n,3,1,5\n,0,1,5\n")
    assert "t.csv:3: job 1 can never run" in fails(capsys, "sim", "t.csv", "--cluster", "4x8")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seed", "-1"], "--seed"),
        (["--seed", "x"], "--seed"),
        (["--checkpoint-interval", "-1"], "--checkpoint-interval"),
        (["--checkpoint-interval", "nan"], "--checkpoint-interval"),
        (["--checkpoint-interval", "inf"], "--checkpoint-interval"),
        (["--policy", "srft"], "the nearest is srsf; known: antman"),
        (["--policy", "tiresias:treshold=1"], "known: thresholds"),
        (["--policy", "muri-s:packing=9"], "one of 2, 3, 4"),
        (["--policy", "nosuch.py:Mine"], "no such file"),
        (["--placement", "pakced"], "the nearest is packed; known: balanced"),
        (["--model", "unreal"], "--model"),
        (["--order", "random"], "--order"),
        (["--contention", "some"], "--contention"),
        (["--policy", "muri-l:order=random"], "one of auto, fair, fifo, slots"),
        (["--format", "xml"], "--format"),
        (["--cluster", "0x8"], "0 GPUs"),
        (["--cluster", "nosuch"], "not NODESxGPUS, a bundled cluster or a file"),
        (["--cluster"], "--cluster"),
        (["--out", ""], "no output directory"),
        (["--out", "."], "cannot be replaced"),
        (["--out", "/dev/null"], "is a file"),
        (["--at", "5"], "--at needs --explain"),
        (["--explain", "200"], "unknown job '200'"),
        (["--explain", "50", "--at", "0"], "is not submitted yet"),
        (["--explain", "50", "--out", "out"], "writes no files"),
    ],
)
def test_wrong_flags(capsys: Capture, here: Path, words: list[str], says: str) -> None:
    assert says in fails(capsys, *SIM, *words)
    assert not list(here.iterdir())


def test_no_cluster_and_no_such_trace(capsys: Capture) -> None:
    assert "--cluster NODESxGPUS" in fails(capsys, "sim", "trace.csv")
    assert "nosuch: no such file" in fails(capsys, "sim", "nosuch", "--cluster", "4x8")


def test_an_unknown_job_gets_the_nearest_five(capsys: Capture) -> None:
    err = fails(capsys, *SIM, "--explain", "1999")
    assert err.splitlines()[1].count(",") == 4
    assert "199" in err.splitlines()[1]


def test_an_output_directory_that_is_not_ours(capsys: Capture, here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "thesis.tex").write_text("x")
    assert "--force" in fails(capsys, *SIM, "--out", "out")
    assert main([*SIM, "--out", "out", "--force"]) == 0
    assert main([*SIM, "--out", "out"]) == 0, "ours by now"
    assert not (here / "out" / "thesis.tex").exists()


def test_a_bad_job_csv(capsys: Capture, here: Path) -> None:
    (here / "job.csv").write_text("a,b\n1,2\n")
    assert "job.csv:1: a job.csv needs a column" in fails(capsys, "metrics", "job.csv")
    assert "no such file" in fails(capsys, "metrics", "nosuch.csv")
    assert "--gpus" in fails(capsys, "metrics", "job.csv", "--gpus", "0")


# ---- compare, policies, trace


def test_compare_needs_nothing_for_the_demo(capsys: Capture) -> None:
    assert main(["compare", "demo"]) == 0
    out, err = capsys.readouterr()
    header, *rows = out.splitlines()
    assert header.split()[:2] == ["policy", "avg_jct_s"]
    assert {len(row.split()) for row in rows} == {len(header.split())}
    assert "fifo" in [row.split()[0] for row in rows]
    assert err == ""


def test_compare_json(capsys: Capture) -> None:
    found = as_json(capsys, "compare", "demo", "--policies", "fifo, srtf,fifo", "--cluster", "4x8")
    results = found["policies"]
    assert isinstance(results, list)
    assert [result["policy"] for result in results] == ["fifo", "srtf"]
    alone = as_json(capsys, *SIM, "--policy", "srtf")
    assert {key: results[1][key] for key in FIGURES} == {key: alone[key] for key in FIGURES}


def test_compare_checks_all_names_first(capsys: Capture) -> None:
    assert "unknown policy 'nosuch'" in fails(capsys, "compare", "demo", "--policies", "fifo,nosuch")
    assert "no policies" in fails(capsys, "compare", "demo", "--policies", ",")
    assert "no cluster" in fails(capsys, "compare", "other.csv")


def test_policies(capsys: Capture) -> None:
    found = as_json(capsys, "policies")
    policies, placements = found["policies"], found["placements"]
    assert isinstance(policies, list)
    assert isinstance(placements, list)
    by_name = {entry["name"]: entry for entry in policies}
    assert by_name["tiresias"]["options"] == [
        {"name": "thresholds", "values": "number+...", "default": "3250+7200"},
        {"name": "tick_s", "values": "number", "default": "1"},
    ]
    assert by_name["tiresias"]["aliases"] == ["dlas-gpu"]
    assert {"name": "packing", "values": "2|3|4", "default": "4"} in by_name["muri-s"]["options"]
    assert all(entry["about"].endswith(".") for entry in policies + placements)
    assert main(["policies"]) == 0
    assert "policy\ttiresias\tthresholds=3250+7200:tick_s=1\t" in capsys.readouterr().out


def test_trace_generate(capsys: Capture, here: Path) -> None:
    words = ["trace", "generate", "--jobs", "50", "--seed", "7", "--cluster", "2x8", "--load", "0.5", "-o"]
    assert main([*words, "a.csv"]) == main([*words, "b.csv"]) == 0
    assert capsys.readouterr().out == ""
    assert (here / "a.csv").read_bytes() == (here / "b.csv").read_bytes()
    assert as_json(capsys, "sim", "a.csv", "--cluster", "2x8")["jobs"] == 50
    assert sorted(entry.name for entry in here.iterdir()) == ["a.csv", "b.csv"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--jobs", "0", "-o", "a.csv"], 2),
        (["--jobs", "5", "--load", "0", "-o", "a.csv"], 2),
        (["--jobs", "5"], 2),
        (["--jobs", "5", "-o", "."], 2),
        (["--jobs", "5", "-o", "no/such/a.csv"], 1),
    ],
)
def test_trace_generate_refuses(capsys: Capture, here: Path, words: list[str], code: int) -> None:
    assert fails(capsys, "trace", "generate", *words, code=code)
    assert not list(here.iterdir())
