"""Studies of autoscalers and of shared GPUs, and the search for share and batch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli_call import as_json, fails
from weft.lab.study.growth_search import search_inference, search_training

Capture = pytest.CaptureFixture[str]
REFERENCE = (
    Path(os.environ.get("WEFT_REFERENCE", Path(__file__).resolve().parents[5] / "shared" / "reference")) / "dilu"
)
PUBLISHED = {
    "resnet152": ("40ms", 30, 16),
    "roberta_large": ("60ms", 20, 4),
    "gpt2_large": ("60ms", 30, 4),
    "llama2": ("42ms", 50, 8),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_picks(model: str, capsys: Capture) -> None:
    path = REFERENCE / f"a100_{model}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} of Dilu's repository is not here")
    slo, share, batch = PUBLISHED[model]
    found = as_json(capsys, "profile", "grid", str(path), "--slo", slo)
    assert (found["share_percent"], found["batch"]) == (share, batch)
    assert found["trials"] == len(found["measured"]) <= 10


def seconds(batch: int, share: float) -> float:
    return (4 + batch) / (1000 * min(share, 0.7))


def test_hybrid_growth_by_hand() -> None:
    """SLO 20 ms, 5 ms of work for one request, 6 for two, 8 for four: 0.1: 50 ms; 0.3: 16.7. Two: 20.0. Four: 26.7 at
    0.3, 20 at 0.4. Eight: 30 at 0.4, 24 at 0.5: stop."""
    shares = [n / 10 for n in range(1, 11)]
    pick = search_inference(seconds, shares, (1, 2, 4, 8, 16), 0.0200001)
    assert (pick.best.batch, pick.best.share) == (4, 0.4)
    assert [(trial.batch, trial.share) for trial in pick.trials] == [
        (1, 0.1), (1, 0.2), (1, 0.3), (2, 0.3), (4, 0.3), (4, 0.4), (8, 0.4), (8, 0.5),
    ]  # fmt: skip


def test_training_gets_the_smallest_share_that_is_enough() -> None:
    shares = [n / 20 for n in range(1, 21)]
    pick = search_training(seconds, shares, 16)
    assert pick.best.share == 0.7
    assert len(pick.trials) <= 6
    assert search_training(seconds, shares, 16, kept=0.5).best.share == 0.35


@pytest.fixture
def grid(tmp_path: Path) -> str:
    points = [(b, s, seconds(b, s / 100)) for b in (1, 2, 4, 8) for s in range(10, 101, 10)]
    (tmp_path / "a100_mine.csv").write_text("\n".join(f"{b},{s},{t}" for b, s, t in points))
    return str(tmp_path / "a100_mine.csv")


def test_an_slo_that_no_share_meets(grid: str, capsys: Capture) -> None:
    err = fails(capsys, "profile", "grid", grid, "--slo", "5ms")
    assert f"{grid}: no share meets 5 ms: a batch of 1 takes 7.143 ms on the whole GPU" in err
    assert "--slo or --training is needed, not both" in fails(capsys, "profile", "grid", grid)
    assert "no batch of 3" in fails(capsys, "profile", "grid", grid, "--training", "--batch", "3")


@pytest.fixture
def rps(tmp_path: Path) -> str:
    (tmp_path / "rps.txt").write_text("\n".join(["2"] * 30 + ["20"] * 60 + ["2"] * 30))
    return str(tmp_path / "rps.txt")


def test_scalers_side_by_side(rps: str, grid: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    words = ["--scalers", "lazy,deficit:target=0.7,fixed:replicas=6", "--grid", grid, "--slo", "60ms"]
    found = as_json(
        capsys, "study", "scaling", "--rps", rps, "--times", "10", "--seeds", "2", "--throughput", "30",
        *words, "--out", str(out),
    )  # fmt: skip
    assert list(found["violations"]) == ["lazy", "deficit:target=0.7", "fixed:replicas=6"]
    assert found["violations"]["fixed:replicas=6"] <= found["violations"]["deficit:target=0.7"]
    assert found["violations"]["deficit:target=0.7"] < found["violations"]["lazy"]
    assert [len(each["runs"]) for each in found["scalers"]] == [2, 2, 2]
    assert found["requests"] == pytest.approx(13_200, rel=0.05)
    assert {entry.name for entry in out.iterdir()} == {"scaling.png", "scaling.svg", "study.csv", "summary.json"}


def test_a_burst_to_the_limit_is_late_less_often(rps: str, grid: str, capsys: Capture) -> None:
    words = ["study", "scaling", "--rps", rps, "--times", "10", "--grid", grid, "--slo", "60ms", "--seeds", "1"]
    slow, fast = as_json(capsys, *words), as_json(capsys, *words, "--burst")
    assert fast["violations"]["lazy"] < slow["violations"]["lazy"]


def test_arrivals_from_a_distribution(capsys: Capture) -> None:
    found = as_json(capsys, "study", "scaling", "--arrivals", "gamma:40:2:60", "--scalers", "deficit", "--seeds", "1")
    assert found["requests"] == pytest.approx(2400, rel=0.3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scalers", "deficit:targets=1"], "unknown option of deficit 'targets'"),
        (["--scalers", "deficit:target=0"], "deficit: target must be above 0"),
        (["--scalers", "slow"], "unknown scaler 'slow'"),
        (["--share", "0.6/0.3"], "--share: the request 0.6 is over the limit 0.3"),
        (["--min", "3", "--max", "2"], "--min 3 is over --max 2"),
        (["--slo", "1ms"], "no batch meets 1 ms"),
        (["--times", "-1"], "expected a number above 0"),
    ],
)
def test_bad_flags_of_the_scaling_study(words: list[str], message: str, rps: str, capsys: Capture) -> None:
    assert message in fails(capsys, "study", "scaling", "--rps", rps, *words)


def test_bad_rates_are_named_with_their_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "rps.txt").write_text("1\nmany\n")
    assert "rps.txt:2: bad rate 'many'" in fails(capsys, "study", "scaling", "--rps", str(tmp_path / "rps.txt"))
    assert "--arrivals: bad value" in fails(capsys, "study", "scaling", "--arrivals", "uniform:3")


def test_adaptive_shares_keep_more_training_than_static_limits(grid: str, tmp_path: Path, capsys: Capture) -> None:
    words = ["--grid", grid, "--slo", "60ms", "--training", "bert=0.3/0.9", "--out", str(tmp_path / "out")]
    found = as_json(capsys, "study", "sharing", *words)
    modes = {each["mode"]: each for each in found["pairs"]}
    assert list(modes) == ["exclusive", "static-request", "static-limit", "adaptive"]
    assert [each["gpus"] for each in modes.values()] == [2, 1, 1, 1]
    assert modes["adaptive"]["training_speed"] > modes["static-limit"]["training_speed"]
    assert modes["adaptive"]["p95_s"] <= modes["static-request"]["p95_s"] + 1e-9
    assert modes["exclusive"]["training_speed"] == 1
    assert (tmp_path / "out" / "sharing.png").exists()
    assert "bad value 'bert'" in fails(capsys, "study", "sharing", "--training", "bert")


def test_scalers_are_listed_with_their_options(capsys: Capture) -> None:
    found = as_json(capsys, "scalers")["scalers"]
    assert [each["name"] for each in found] == ["concurrency", "deficit", "fixed", "kpa", "lazy"]
    lazy = next(each for each in found if each["name"] == "lazy")
    assert [(option["name"], option["default"]) for option in lazy["options"]] == [
        ("window", "40"), ("out", "20"), ("in", "30"),
    ]  # fmt: skip
