"""The colocation study: files, generated instances, bounds, and the published peaks where the data is there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.cli_call import as_json, fails
from weft.errors import InputError
from weft.lab.study.bound import bound_gpus
from weft.lab.study.colocation import Hardware, pack_instances
from weft.lab.study.instances import generate_instances, read_instances
from weft.scheduling.weaving.simplex import maximise

Capture = pytest.CaptureFixture[str]
REFERENCE = (
    Path(os.environ.get("WEFT_REFERENCE", Path(__file__).resolve().parents[5] / "shared" / "reference")) / "dilu"
)
NODES = Hardware(1000)
RECORD: dict[str, Any] = {
    "Time": "2024-06-19 15:46:09",
    "Action": "start",
    "Instance": {
        "service_name": "a", "type": "training", "gpu_num": 2, "sm_requests": 0.5, "sm_limits": 0.8, "memory": [30, 30],
    },
}  # fmt: skip


def record(**changes: Any) -> str:
    instance = {key: changes.pop(key, value) for key, value in RECORD["Instance"].items()}
    instance |= {"function": changes.pop("function")} if "function" in changes else {}
    return json.dumps(RECORD | changes | {"Instance": instance})


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("nonsense", ":2: not a record"),
        ("[1]", ":2: not a record"),
        (record(Action="pause"), ":2: bad Action 'pause'"),
        (record(Time="yesterday"), ":2: bad Time 'yesterday'"),
        (record(Time="2024-06-19 15:46:08", service_name="b"), ":2: the time goes back"),
        (record(), ":2: a starts twice"),
        (record(Action="delete", service_name="b"), ":2: b ends, but does not run"),
        (record(service_name="b", type="batch"), ":2: bad type 'batch'"),
        (record(service_name="b", sm_requests=0.9), ":2: sm_requests 0.9 is over sm_limits 0.8"),
        (record(service_name="b", sm_requests=-0.1), ":2: bad sm_requests -0.1"),
        (record(service_name="b", sm_limits=1.5), ":2: bad sm_limits 1.5"),
        (record(service_name="b", memory=[30]), ":2: memory of 1 workers"),
        (record(service_name="b", memory=[30, "x"]), ":2: bad memory x"),
        (record(service_name="b", gpu_num=0), ":2: bad gpu_num 0"),
        (record(service_name="b", gpu_num=8, memory=[30] * 8), ":2: b needs 8 GPUs with 30 GB, and a node has 4"),
        (record(service_name="b", function="f"), ":2: bad function 'f'"),
        (record(service_name="b", memory=[50, 50]), ":2: b needs 2 GPUs with 50 GB, and a node has 4 GPUs with 40 GB"),
    ],
)
def test_a_wrong_record_is_named_with_its_line(tmp_path: Path, capsys: Capture, second: str, words: str) -> None:
    file = tmp_path / "instances.txt"
    file.write_text(f"{record()}\n{second}\n")
    assert f"{file}{words}" in fails(capsys, "study", "colocation", "--from", str(file))


def test_an_empty_file_has_no_instances(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(InputError, match="no instances"):
        read_instances(str(tmp_path / "none.txt"))


def test_python_and_json_records_are_alike(tmp_path: Path) -> None:
    (tmp_path / "json.txt").write_text(record())
    (tmp_path / "python.txt").write_text(repr(RECORD))
    (one,), (other,) = read_instances(str(tmp_path / "json.txt")), read_instances(str(tmp_path / "python.txt"))
    assert one == other
    assert one.demand.memory_mb == (30 * 1024, 30 * 1024)


def test_generated_instances_have_the_published_mix() -> None:
    events = generate_instances(500, seed=3)
    assert events == generate_instances(500, seed=3)
    starts = [event.demand for event in events if event.starts]
    ends = [event.demand for event in events if not event.starts]
    counts = {kind: sum(demand.kind == kind for demand in starts) for kind in ("training", "llm", "inference")}
    assert counts == {"training": 100, "llm": 100, "inference": 300}
    assert (sum(d.gang for d in ends), sum(not d.gang for d in ends)) == (50, 300)
    began = {event.demand.name: event.at_s for event in events if event.starts}
    lives = {event.demand: event.at_s - began[event.demand.name] for event in events if not event.starts}
    assert all(600 <= life <= 900 if demand.gang else 60 <= life <= 180 for demand, life in lives.items())
    for demand in starts:
        assert demand.share.request + 0.2 <= demand.share.limit + 0.0051
        assert len(demand.memory_mb) in ((2, 4) if demand.gang else (1,))


def test_two_gangs_and_a_model_by_hand() -> None:
    """Four workers of 30 GB leave four holes of 10 GB. A model of 25 GB fits into three of them, which exclusive,
    infless and a bound that cuts nothing do not see: 5 GPUs against 4."""
    lines = [
        record(gpu_num=4, memory=[30] * 4, sm_requests=0.4, sm_limits=0.6),
        record(service_name="l", type="llm-inference", gpu_num=1, memory=[25], sm_requests=0.5, sm_limits=0.7),
    ]
    events = [_event(line) for line in lines]
    for spec, peak in (("exclusive", 5), ("infless-r", 5), ("dilu:splits=off", 5), ("dilu", 4), ("holes", 4)):
        assert pack_instances(spec, events, Hardware(2)).peak_gpus == peak, spec
    assert bound_gpus(events, NODES.gpu_mb, 1.5)[:3] == (4, 0.0, 4)
    tight = bound_gpus(events, NODES.gpu_mb, 1.2)  # 0.6 + 0.7 is over 1.2: the model needs a GPU of another kind
    assert tight.gpus == 5


def _event(line: str) -> Any:
    from weft.lab.study.instances import InstanceEvent, _parse_record

    _, starts, demand = _parse_record(line, "here")
    return InstanceEvent(0.0, starts, demand)


@pytest.mark.parametrize("seed", range(3))
def test_no_placement_is_below_the_bound(seed: int) -> None:
    events = generate_instances(120, seed)
    bound = bound_gpus(events, NODES.gpu_mb, 1.5)
    peaks = {spec: pack_instances(spec, events, NODES).peak_gpus for spec in ("dilu", "holes", "exclusive")}
    assert bound.memory_gpus <= bound.gpus <= peaks["holes"] <= peaks["dilu"] < peaks["exclusive"]


def test_the_same_instances_give_the_same_packing() -> None:
    events = generate_instances(150, seed=5)
    one, other = (pack_instances("holes", events, NODES) for _ in range(2))
    assert one.gpus == other.gpus
    assert one.moves == other.moves <= 0.25 * len(events)


def test_a_linear_program_by_hand() -> None:
    """Maximise 3x + 2y with x + y <= 4, x + 3y <= 6, x <= 3: x = 3, y = 1, 11."""
    a = np.array([[1.0, 1.0], [1.0, 3.0], [1.0, 0.0]])
    assert maximise(np.array([3.0, 2.0]), a, np.array([4.0, 6.0, 3.0]))[0] == pytest.approx(11)


def test_the_command_writes_pictures_and_figures(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    words = ["study", "colocation", "--instances", "60", "--placements", "dilu,holes", "--out", str(out)]
    found = as_json(capsys, *words)
    assert list(found["peak_gpus"]) == ["dilu", "holes"]
    assert found["bound"]["gpus"] <= found["peak_gpus"]["holes"] <= found["peak_gpus"]["dilu"]
    assert [row["placement"] for row in found["placements"]] == ["dilu", "holes"]
    names = {"gpus.png", "gpus.svg", "peak-gpus.png", "peak-gpus.svg", "study.csv", "summary.json"}
    assert {entry.name for entry in out.iterdir()} == names
    assert as_json(capsys, *words)["peak_gpus"] == found["peak_gpus"]  # it replaces its own folder


@pytest.mark.parametrize(("function", "peak"), [("", 2), ("f", 3)])
def test_replicas_of_one_function_slow_all_workers_alike(tmp_path: Path, function: str, peak: int) -> None:
    """r1 and r2 go to the first GPU of the gang by best fit, one to each as replicas of one function. Then r3, which
    needs 0.4, needs another GPU."""
    single = {"type": "inference", "gpu_num": 1, "sm_limits": 0.3, "memory": [3]}
    lines = [record(service_name=name, sm_requests=0.2, function=function, **single) for name in ("r1", "r2")]
    lines.append(record(service_name="r3", sm_requests=0.4, **(single | {"sm_limits": 0.4})))
    (tmp_path / "instances.txt").write_text("\n".join([record(), *lines]))
    assert pack_instances("dilu", read_instances(str(tmp_path / "instances.txt")), NODES).peak_gpus == peak


def test_a_placement_without_shares_is_refused(capsys: Capture) -> None:
    err = fails(capsys, "study", "colocation", "--instances", "10", "--placements", "packed")
    assert "placement 'packed' does not place by request and limit" in err
    assert "unknown placement" in fails(capsys, "study", "colocation", "--instances", "10", "--placements", "hole")


PEAKS = {
    100: {"dilu": (82, 0.015), "exclusive": (132, 0.03), "infless-l": (116, 0.03), "infless-r": (80, 0.03)},
    800: {"dilu": (499, 0.015), "exclusive": (693, 0.03), "infless-l": (639, 0.03), "infless-r": (520, 0.03)},
    3200: {"dilu": (1322, 0.015), "exclusive": (1879, 0.03), "infless-l": (1719, 0.03), "infless-r": (1357, 0.03)},
}
HOLES = {100: 80, 800: 490, 3200: 1285}
COUNTS = [100, 800, pytest.param(3200, marks=pytest.mark.soak)]


@pytest.mark.parametrize("count", COUNTS)
def test_published_peaks(count: int) -> None:
    path = REFERENCE / f"instances-{count}.txt.gz"
    if not path.exists():
        pytest.skip(f"{path.name} of Dilu's repository is not here")
    events = read_instances(str(path))
    for spec, (published, tolerance) in PEAKS[count].items():
        assert pack_instances(spec, events, NODES).peak_gpus == pytest.approx(published, rel=tolerance), spec
    holes = pack_instances("holes", events, NODES)
    assert holes.peak_gpus <= HOLES[count]
    assert holes.moves_per_event <= 0.3
