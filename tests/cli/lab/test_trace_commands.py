"""`weft trace show`, `convert` and `generate`; the flags of uncertainty."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
from weft.cli.commands.trace.show import bar
from weft.cli.main import main
from weft.sim.traces.generator import generate, small
from weft.sim.traces.trace import read_trace
from weft.sim.traces.writers import to_bytes

pytestmark = pytest.mark.usefixtures("here")
SIM = ["sim", "demo", "--cluster", "4x8", "--policy", "srsf"]
GENERATE = ["trace", "generate", "--jobs", "50"]


# ---- uncertainty


def test_uncertainty_is_in_the_head_where_it_is_not_as_usual(capsys: Capture) -> None:
    assert "uncertainty" not in as_json(capsys, *SIM)
    words = ["--estimates", "lognormal:0.5", "--mtbf", "5", "--crash-rate", "0.05", "--load", "1.2"]
    found = as_json(capsys, *SIM, *words)
    assert found["uncertainty"] == {
        "estimates": "lognormal:0.5", "mtbf_h": 5.0, "repair_h": 1.0, "crash_rate": 0.05, "retries": 3, "load": 1.2,
    }  # fmt: skip
    assert found["finished"] + found["failed"] == 200
    assert as_json(capsys, "compare", "demo", "--policies", "fifo", *words)["uncertainty"] == found["uncertainty"]


def test_the_seed_draws_the_uncertainty(capsys: Capture) -> None:
    words = [*SIM, "--estimates", "lognormal:1", "--crash-rate", "0.2", "--mtbf", "3", "--repair", "0.5"]
    first, again, other = (as_json(capsys, *words, "--seed", seed) for seed in "112")
    assert first["avg_jct_s"] == again["avg_jct_s"] != other["avg_jct_s"]


def test_jobs_that_failed_for_good_are_counted(capsys: Capture) -> None:
    assert main([*SIM, "--crash-rate", "0.5", "--retries", "0", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["failed"] == found["jobs"] - found["finished"] > 50
    assert f"srsf: {found['failed']} jobs failed for good" in err


def test_what_the_trace_says_of_retries_counts(capsys: Capture, here: Path) -> None:
    (here / "t.csv").write_text("job_id,submit_s,gpus,duration_s,retries\na,0,1,60,2\nb,0,1,60,0\nc,0,1,60,\n")
    words = ["sim", "t.csv", "--cluster", "1x4", "--crash-rate", "1", "--retries", "5", "--out", "out"]
    assert as_json(capsys, *words)["failed"] == 3
    runs = [line.split(",")[9] for line in (here / "out" / "job.csv").read_text().splitlines()[1:]]
    assert runs == ["3", "1", "6"]


def test_load_makes_arrivals_denser(here: Path) -> None:
    (here / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,100,1,5\nb,300,1,5\n")
    assert main(["sim", "t.csv", "--cluster", "1x4", "--load", "2", "--out", "out"]) == 0
    assert [line.split(",")[4] for line in (here / "out" / "job.csv").read_text().splitlines()[1:]] == [
        "100.0",
        "200.0",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--estimates", "guess"], "lognormal:SIGMA"),
        (["--estimates", "lognormal:-1"], "lognormal:SIGMA"),
        (["--mtbf", "0"], "--mtbf"),
        (["--mtbf", "nan"], "--mtbf"),
        (["--repair", "1"], "--repair needs --mtbf"),
        (["--mtbf", "5", "--repair", "-1"], "--repair"),
        (["--crash-rate", "2"], "from 0 to 1"),
        (["--crash-rate", "nan"], "from 0 to 1"),
        (["--retries", "3"], "--retries needs --crash-rate"),
        (["--crash-rate", ".1", "--retries", "-1"], "--retries"),
        (["--load", "0"], "--load"),
        (["--load", "inf"], "--load"),
    ],
)
def test_wrong_flags(capsys: Capture, words: list[str], says: str) -> None:
    assert says in fails(capsys, *SIM, *words)


# ---- show


def test_show_json(capsys: Capture) -> None:
    found = as_json(capsys, "trace", "show", "demo", "--cluster", "4x8")
    assert (found["schema"], found["trace"], found["jobs"], found["users"], found["cluster_gpus"]) == (
        1,
        "demo",
        200,
        5,
        32,
    )
    assert found["jobs_by_gpus"] == {"1": 71, "2": 30, "4": 41, "8": 49, "16": 9}
    assert list(found["duration_s"]) == ["p25", "p50", "mean", "p75", "p90", "p99", "max"]
    assert found["duration_s"]["max"] == max(each.work_s for each in small().jobs)
    work = sum(each.work_s * each.job.gpus for each in small().jobs)
    assert found["offered_load"] == pytest.approx(work / 32 / found["span_s"])
    assert "offered_load" not in as_json(capsys, "trace", "show", "demo")


def test_show_piped_is_plain(capsys: Capture) -> None:
    assert main(["trace", "show", "demo", "--cluster", "4x8"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.isascii()
    lines = out.splitlines()
    assert "jobs\t200" in lines
    assert "by_gpus\t16\t9" in lines
    assert next(line for line in lines if line.startswith("duration_s\t")).count("\t") == 7


def test_show_draws_bars_for_people(capsys: Capture) -> None:
    assert main(["trace", "show", "demo", "--color", "always"]) == 0
    assert "█" in capsys.readouterr().out
    assert (bar(1.0, 4), bar(0.5, 3), bar(0.0), bar(1e-9)) == ("████", "█▌", "", "▏")


ONE = "submit_s,gpus,duration_s\n5,1,60\n"


def test_show_of_a_single_job(capsys: Capture, here: Path) -> None:
    (here / "t.csv").write_text(ONE)
    found = as_json(capsys, "trace", "show", "t.csv", "--cluster", "1x1", "-o", "t.png")
    assert (found["span_s"], found["arrivals_per_h"], found["offered_load"]) == (0, None, None)
    assert main(["trace", "show", "t.csv", "--cluster", "1x1"]) == 0
    assert "offered_load\t-\n" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
def test_show_draws_a_picture_the_same_every_time(capsys: Capture, here: Path, name: str, magic: bytes) -> None:
    words = ["trace", "show", "demo", "--cluster", "4x8", "-o", name]
    assert main(words) == 0
    first = (here / name).read_bytes()
    assert first.startswith(magic)
    assert f"drew {name}" in capsys.readouterr().err
    assert f"{name}: exists" in fails(capsys, *words)
    assert main([*words, "--force"]) == 0
    assert (here / name).read_bytes() == first


def test_show_without_matplotlib(capsys: Capture, monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "needs matplotlib" in fails(capsys, "trace", "show", "demo", "-o", "p.png", code=1)
    assert not list(here.iterdir())
    assert main(["trace", "show", "demo"]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nosuch.csv"], "no such file"),
        (["demo", "-o", "p.gif"], "use .png or .svg"),
        (["demo", "-o", "no/such/p.png"], "no such directory"),
        (["demo", "--cluster", "0x4"], "0 GPUs"),
        (["demo", "--format", "xml"], "--format"),
        ([], "TRACE"),
    ],
)
def test_show_refuses(capsys: Capture, here: Path, words: list[str], says: str) -> None:
    assert says in fails(capsys, "trace", "show", *words)
    assert not list(here.iterdir())


# ---- convert


def test_convert_there_and_back(capsys: Capture, here: Path) -> None:
    (here / "a.csv").write_bytes(to_bytes(generate(50, seed=1), "weft"))
    assert main(["trace", "convert", "a.csv", "b.jsonl.gz", "--to", "weft-jsonl"]) == 0
    assert gzip.decompress((here / "b.jsonl.gz").read_bytes()).startswith(b'{"job_id": "0", "submit_s": 0.0')
    assert main(["trace", "convert", "b.jsonl.gz", "c.csv", "--to", "weft"]) == 0
    assert (here / "c.csv").read_bytes() == (here / "a.csv").read_bytes()
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot carry" not in err
    assert as_json(capsys, "sim", "b.jsonl.gz", "--cluster", "8x8")["trace"] == "b"


def test_convert_says_what_is_lost(capsys: Capture) -> None:
    assert main(["trace", "convert", "demo", "b.csv", "--to", "elasticflow"]) == 0
    assert "elasticflow cannot carry user: 200 of 200 jobs" in capsys.readouterr().err
    found = as_json(capsys, "trace", "convert", "demo", "c.csv", "--to", "elasticflow")
    assert found["lost"]["user"] == 200


def test_convert_draws_by_the_seed(here: Path) -> None:
    (here / "a.csv").write_text("submission_time,duration,num_gpu\n" + "5,60,1\n" * 40)
    for name, seed in (("1.csv", "1"), ("2.csv", "1"), ("3.csv", "2")):
        assert main(["trace", "convert", "a.csv", name, "--to", "weft", "--seed", seed]) == 0
    one, two, three = ((here / name).read_bytes() for name in ("1.csv", "2.csv", "3.csv"))
    assert one == two != three
    assert read_trace(here / "1.csv", seed=7).jobs == read_trace(here / "a.csv", seed=1).jobs


def test_convert_overwrites_only_by_force(capsys: Capture, here: Path) -> None:
    (here / "b.csv").write_text("mine")
    words = ["trace", "convert", "demo", "b.csv", "--to", "weft"]
    assert "b.csv: exists" in fails(capsys, *words)
    assert (here / "b.csv").read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert "input and output are the same file" in fails(
        capsys, "trace", "convert", "b.csv", "b.csv", "--to", "muri", "--force"
    )
    assert [entry.name for entry in here.iterdir()] == ["b.csv"]


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (["nosuch.csv", "b.csv", "--to", "weft"], "no such file", 2),
        (["demo", "b.csv"], "--to", 2),
        (["demo", "b.csv", "--to", "xml"], "--to", 2),
        (["demo", ".", "--to", "weft"], "is a directory", 2),
        (["demo", "no/such/b.csv", "--to", "weft"], "cannot write", 1),
    ],
)
def test_convert_refuses(capsys: Capture, here: Path, words: list[str], says: str, code: int) -> None:
    assert says in fails(capsys, "trace", "convert", *words, code=code)
    assert not list(here.iterdir())


# ---- generate


def test_generate_overwrites_only_by_force(capsys: Capture, here: Path) -> None:
    (here / "b.csv").write_text("mine")
    assert "b.csv: exists" in fails(capsys, *GENERATE, "-o", "b.csv")
    assert (here / "b.csv").read_text() == "mine"
    assert main([*GENERATE, "-o", "b.csv", "--force"]) == 0
    assert (here / "b.csv").read_text() != "mine"


def test_generate_as_asked(capsys: Capture, here: Path) -> None:
    words = ["--arrivals", "burst", "--gpus-mix", "1=.5,4=.5", "--durations", "exponential:300", "--models", "bert=1",
             "--users", "3", "--memory-mb", "8000=1", "-o", "t.jsonl.gz"]  # fmt: skip
    assert as_json(capsys, *GENERATE, *words)["jobs"] == 50
    found = as_json(capsys, "trace", "show", "t.jsonl.gz")
    assert (set(found["jobs_by_gpus"]), found["jobs_by_model"], found["users"]) == ({"1", "4"}, {"bert": 50}, 3)
    assert found["memory_mb"]["max"] == 8000
    assert [entry.name for entry in here.iterdir()] == ["t.jsonl.gz"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--arrivals", "gamma"], "no such arrivals"),
        (["--gpus-mix", "1=x"], "bad --gpus-mix"),
        (["--gpus-mix", "0=1"], "bad --gpus-mix"),
        (["--gpus-mix", "128=1"], "jobs of 128 GPUs, and 8x8 has 64"),
        (["--models", "bret=1"], "known: bert"),
        (["--models", ""], "bad --models"),
        (["--memory-mb", "8GB=1"], "bad --memory-mb"),
        (["--users", "0"], "cannot generate 0 users"),
        (["--durations", "fixed"], "no such durations"),
        (["--durations", "fixed:5", "--mean", "5"], "excludes --median and --mean"),
        (["--median", "10", "--mean", "5"], "no log-normal has median 10.0 s"),
        (["--load", "nan"], "--load"),
        (["--jobs", "99999999999"], "at most"),
    ],
)
def test_generate_refuses(capsys: Capture, here: Path, words: list[str], says: str) -> None:
    assert says in fails(capsys, *GENERATE, *words, "-o", "t.csv")
    assert not list(here.iterdir())
