"""`weft compare`: the same figures however it is run, what a bad policy does, and what is left on disk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from weft.cli.main import main

Capture = pytest.CaptureFixture[str]
COMPARE = ["compare", "demo", "--cluster", "4x8"]
POLICIES = "fifo,srtf,muri-s"
FIGURES = {
    "avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "avg_queue_s", "gpu_utilisation", "preemptions",
    "fairness_max_rho",
}  # fmt: skip
ONE = FIGURES | {
    "policy", "placement", "jobs", "finished", "restarts", "failed", "unfinished", "avg_first_wait_s", "cpu_s", "facts",
    "facts_per_s", "normalised",
}  # fmt: skip
NAMES = ("jct", "queue", "utilisation", "blocking", "normalised")
BAD = """
from dataclasses import dataclass

from weft.scheduling.policies.fifo import Fifo


@dataclass(frozen=True)
class Bad(Fifo):
    '''Breaks after a while.'''

    def key(self, job, now):
        return 1 / 0 if now > 4000 else 0.0
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def as_json(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    assert main([*COMPARE, *words, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    return dict(found)


def timeless(found: Any) -> Any:
    """Without what depends on the machine."""
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if key not in ("cpu_s", "facts_per_s")}
    return [timeless(each) for each in found] if isinstance(found, list) else found


# ---- figures


def test_json(capsys: Capture) -> None:
    found = as_json(capsys, "--policies", POLICIES, "--baseline", "fifo")
    assert set(found) == {
        "schema", "kind", "trace", "cluster", "gpus", "model", "seed", "seeds", "jobs", "measured", "skipped",
        "baseline", "bounds", "policies",
    }  # fmt: skip
    assert (found["kind"], found["jobs"], found["measured"], found["baseline"]) == ("comparison", 200, 200, "fifo")
    assert [each["policy"] for each in found["policies"]] == POLICIES.split(",")
    assert set(found["bounds"]) == {"avg_jct_s", "makespan_s", "alone_avg_jct_s", "alone_makespan_s"}
    fifo, srtf, _ = found["policies"]
    assert all(set(each) == ONE for each in found["policies"])
    assert set(fifo["normalised"].values()) == {1.0}
    assert srtf["normalised"]["avg_jct_s"] == srtf["avg_jct_s"] / fifo["avg_jct_s"]
    assert all(found["bounds"]["avg_jct_s"] <= each["avg_jct_s"] for each in found["policies"])


def test_parallel_is_serial_is_sim(capsys: Capture) -> None:
    serial = as_json(capsys, "--policies", POLICIES, "--workers", "1")
    assert timeless(serial) == timeless(as_json(capsys, "--policies", POLICIES, "--workers", "3"))
    assert main(["sim", "demo", "--policy", "srtf", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    srtf = serial["policies"][1]
    assert {key: srtf[key] for key in FIGURES} == {key: alone[key] for key in FIGURES}


def test_seeds_give_means_and_intervals(capsys: Capture) -> None:
    words = ["--policies", "srtf,fifo", "--crash-rate", "0.1", "--seed", "5"]
    found = as_json(capsys, *words, "--seeds", "3")
    assert timeless(found) == timeless(as_json(capsys, *words, "--seeds", "3", "--workers", "4")), "same seeds, same"
    for each in found["policies"]:
        runs = each["runs"]
        assert [run["seed"] for run in runs] == [5, 6, 7]
        jcts = [run["avg_jct_s"] for run in runs]
        assert len(set(jcts)) == 3
        mean = sum(jcts) / 3
        assert each["avg_jct_s"] == pytest.approx(mean)
        spread = (sum((jct - mean) ** 2 for jct in jcts) / 2 / 3) ** 0.5
        assert each["ci95"]["avg_jct_s"] == pytest.approx(4.303 * spread, rel=1e-3)
        assert set(each["ci95"]) == FIGURES
    alone = as_json(capsys, "--policies", "srtf", "--crash-rate", "0.1", "--seed", "6")
    assert timeless(found["policies"][0]["runs"][1])["p99_jct_s"] == alone["policies"][0]["p99_jct_s"]


def test_seeds_without_chance_are_told(capsys: Capture) -> None:
    assert main([*COMPARE, "--policies", "fifo", "--seeds", "2"]) == 0
    assert "every seed gave the same" in capsys.readouterr().err


def test_trimming_leaves_jobs_out_of_the_jcts_only(capsys: Capture) -> None:
    whole = as_json(capsys, "--policies", "srtf")
    found = as_json(capsys, "--policies", "srtf", "--trim-warmup", "4000", "--trim-cooldown", "4000")
    assert 0 < found["measured"] < whole["measured"] == found["jobs"]
    (before,), (after,) = whole["policies"], found["policies"]
    assert after["jobs"] == found["measured"]
    assert after["avg_jct_s"] != before["avg_jct_s"]
    for key in ("makespan_s", "gpu_utilisation", "preemptions", "facts"):
        assert after[key] == before[key]
    assert found["bounds"]["makespan_s"] == whole["bounds"]["makespan_s"]
    assert found["bounds"]["avg_jct_s"] != whole["bounds"]["avg_jct_s"]
    assert main([*COMPARE, "--trim-warmup", "1e9"]) == 2
    assert "trim less" in capsys.readouterr().err


def test_no_bound_where_jobs_are_lost(capsys: Capture) -> None:
    found = as_json(capsys, "--policies", "fifo", "--crash-rate", "0.5", "--retries", "0")
    assert found["policies"][0]["failed"] > 0
    assert found["bounds"] is None


# ---- tables


def test_piped_there_is_only_the_table(capsys: Capture) -> None:
    assert main([*COMPARE, "--policies", POLICIES]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    header, *lines = out.splitlines()
    assert [line.split()[0] for line in lines] == [*POLICIES.split(","), "lower-bound"]
    assert {len(line.split()) for line in (header, *lines)} == {len(header.split())}
    assert {"avg_jct_s", "avg_jct_x", "makespan_over_bound"} <= set(header.split())


def test_the_best_is_marked(capsys: Capture) -> None:
    assert main([*COMPARE, "--policies", "fifo,srtf,antman", "--seeds", "2", "--color", "always"]) == 0
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert re.search(r"^srtf +27m 8s\*", out, re.MULTILINE)
    assert "relative to srtf; smaller is better" in out
    assert "95 % confidence" in out
    assert re.search(r"^sharing +17m 39s ", out, re.MULTILINE), "antman is held to another bound"


# ---- bad input


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policies", ","], "no policies to compare"),
        (["--policies", "fifo", "--baseline", "srtf"], "unknown baseline 'srtf'\n  known: fifo"),
        (["--policies", "fifo,sltf"], "unknown policy 'sltf'"),
        (["--workers", "0"], "expected a whole number from 1"),
        (["--seeds", "1001"], "expected a whole number from 1"),
        (["--trim-warmup", "-1"], "expected seconds"),
    ],
)
def test_bad_flags(capsys: Capture, words: list[str], says: str) -> None:
    assert main([*COMPARE, *words]) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert out == ""


def test_a_policy_that_raises_is_named_and_the_others_go_on(capsys: Capture, here: Path) -> None:
    (here / "bad.py").write_text(BAD)
    words = [*COMPARE, "--policies", "fifo,bad.py:Bad,srtf", "--out", "out"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert (
        f"weft: error: bad.py:Bad: Bad with Packed raised ZeroDivisionError: division by zero ({here}/bad.py:12)" in err
    )
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["fifo", "bad.py:Bad", "srtf", "lower-bound"]
    assert "<b>bad.py:Bad</b> failed: " in (here / "out" / "report.html").read_text()
    assert main([*words, "--json"]) == 1
    out, err = capsys.readouterr()
    found = {each["policy"]: each for each in json.loads(out)["policies"]}
    assert "ZeroDivisionError" in found["bad.py:Bad"]["error"]
    assert found["bad.py:Bad"]["avg_jct_s"] is None
    assert found["srtf"]["avg_jct_s"] > 0
    assert json.loads(err)["error"]["code"] == "policy-failed"


# ---- the report


def test_out(capsys: Capture, here: Path) -> None:
    found = as_json(capsys, "--policies", "fifo,srtf", "--out", "out")
    names = {f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")}
    names |= {"gantt-1.png", "gantt-2.png", "report.html", "summary.json"}
    assert {entry.name for entry in (here / "out").iterdir()} == names
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert set(summary.pop("files")) == names - {"summary.json"}
    assert summary == found
    for name in names:
        content = (here / "out" / name).read_bytes()
        assert not name.endswith(".png") or content.startswith(b"\x89PNG")
        assert not name.endswith(".svg") or b"<svg" in content
    text = (here / "out" / "report.html").read_text()
    assert len(text) < 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<>)]+", text)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
    }  # fmt: skip
    assert text.count("data:image/png;base64,") == 2
    assert text.count("<svg ") == len(NAMES)


def test_an_output_folder_of_others_is_refused(capsys: Capture, here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "thesis.tex").write_text("years of work")
    words = [*COMPARE, "--policies", "fifo", "--out"]
    assert main([*words, "mine"]) == 2
    assert "exists and is not the output of" in capsys.readouterr().err
    assert (here / "mine" / "thesis.tex").exists()
    assert main([*words, "mine", "--force"]) == 0
    assert not (here / "mine" / "thesis.tex").exists()
    assert main([*words, "mine"]) == 0, "now it is ours"
    (here / "mine" / "thesis.tex").write_text("again")
    assert main([*words, "mine"]) == 2
    (here / "file").touch()
    assert main([*words, "file"]) == 2


BROKEN = """
from dataclasses import dataclass

from weft.scheduling.core.ports import Placement
from weft.scheduling.policies.fifo import Fifo


@dataclass(frozen=True)
class Place(Placement):
    def place(self, shape, free):
        raise ValueError("no idea")


@dataclass(frozen=True)
class Lost(Fifo):
    placement = "broken.py:Place"
"""


def test_a_placement_that_raises_is_named_and_the_others_go_on(capsys: Capture, here: Path) -> None:
    (here / "broken.py").write_text(BROKEN)
    found = as_json(capsys, "--policies", "fifo,broken.py:Lost", code=1)
    good, bad = found["policies"]
    assert good["finished"] == 200
    assert re.search(r"Lost with Place raised ValueError: no idea \(.*broken\.py:11\)", bad["error"])


def test_a_placement_that_raises_is_no_traceback_in_sim(capsys: Capture, here: Path) -> None:
    (here / "broken.py").write_text(BROKEN)
    assert main(["sim", "demo", "--placement", "broken.py:Place"]) != 0
    said = capsys.readouterr().err
    assert re.search(r"weft: error: Place raised ValueError: no idea \(.*broken\.py:11\)", said)
    assert "Traceback" not in said


def test_a_policy_named_twice_and_a_weight_for_nobody_are_said(capsys: Capture) -> None:
    policy = "fair-share:weights=ada=2+nobody=3"
    assert main([*COMPARE, "--policies", f"{policy},fifo,fifo"]) == 0
    said = capsys.readouterr().err
    assert "fifo is given 2 times; it is compared once" in said
    assert f"{policy}: no job of the trace belongs to nobody" in said
    assert "ada" not in said.replace(policy, "")
