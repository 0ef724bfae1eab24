"""`weft figures muri`: the figures of the paper from a folder of traces."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from weft.cli.main import main
from weft.sim.traces.generator import small
from weft.sim.traces.writers import to_bytes

Capture = pytest.CaptureFixture[str]
POLICIES = {
    9: ["srtf", "srsf", "muri-s"],
    10: ["tiresias", "themis", "antman", "muri-l"],
    11: ["muri-l:blossom=off", "muri-l:ordering=worst", "muri-l"],
    12: ["muri-l:packing=2", "muri-l:packing=3", "muri-l"],
    13: ["srsf", "muri-s", "tiresias", "muri-l"],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `traces` with one short trace."""
    (tmp_path / "traces").mkdir()
    trace = replace(small(), jobs=small().jobs[:20])
    (tmp_path / "traces" / "trace3.csv").write_bytes(to_bytes(trace, "muri"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_of_them(capsys: Capture, here: Path) -> None:
    assert main(["figures", "muri", "traces", "--cluster", "2x8", "--out", "out", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "left out (no file): trace1, trace2, trace4" in err
    assert (found["kind"], found["paper"], found["failures"]) == ("figures", "muri", [])
    assert found["missing"] == ["trace1", "trace2", "trace4"]
    rows = found["rows"]
    for figure, policies in POLICIES.items():
        mine = [row for row in rows if row["figure"] == figure]
        variants = [f"job_type_{n}" for n in (1, 2, 3, 4)] if figure == 13 else ["trace3", "trace3_pr"]
        assert [(row["trace"], row["policy"]) for row in mine] == [(v, p) for v in variants for p in policies]
    for row in rows:
        base = next(
            other for other in rows
            if (other["figure"], other["trace"], other["policy"]) == (row["figure"], row["trace"], row["baseline"])
        )  # fmt: skip
        assert row["normalised"]["avg_jct_s"] == row["avg_jct_s"] / base["avg_jct_s"]
        assert row["avg_jct_s"] <= row["p99_jct_s"] <= row["makespan_s"]
    names = {f"figure-{number}.{kind}" for number in POLICIES for kind in ("png", "svg")}
    assert {entry.name for entry in (here / "out").iterdir()} == names | {"figures.csv", "summary.json"}
    with open(here / "out" / "figures.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["avg_jct_s"]) for line in lines] == [row["avg_jct_s"] for row in rows]


def test_it_agrees_with_sim(capsys: Capture) -> None:
    assert main(["figures", "muri", "traces", "--cluster", "2x8", "--workers", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert (
        main(["sim", "traces/trace3.csv", "--cluster", "2x8", "--model", "muri", "--policy", "muri-l", "--json"]) == 0
    )
    alone = json.loads(capsys.readouterr().out)
    one = next(row for row in rows if (row["figure"], row["trace"], row["policy"]) == (10, "trace3", "muri-l"))
    assert (one["avg_jct_s"], one["makespan_s"]) == (alone["avg_jct_s"], alone["makespan_s"])


def test_jobs_that_do_not_fit_are_left_out(capsys: Capture) -> None:
    assert main(["figures", "muri", "traces", "--cluster", "1x2"]) == 0
    out, err = capsys.readouterr()
    assert "jobs that do not fit on 1x2" in err
    assert out.splitlines()[0].split() == [
        "figure", "trace", "policy", "avg_jct_s", "avg_jct_x", "makespan_s", "makespan_x", "p99_jct_s", "p99_jct_x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["muri", "nowhere"], "nowhere: no such folder"),
        (["muri", "."], "none of Muri's traces is in this folder"),
        (["philly", "traces"], "invalid choice"),
        (["muri", "traces", "--cluster", "0x8"], "0x8"),
        (["muri", "traces", "--out", "traces"], "exists and is not the output of"),
    ],
)
def test_bad_input(capsys: Capture, here: Path, words: list[str], says: str) -> None:
    assert main(["figures", *words]) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert out == ""
    assert [entry.name for entry in here.iterdir()] == ["traces"]
