"""`weft figures dilu`: every study for which a folder has data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_call import as_json, fails
from weft.lab.study.instances import InstanceEvent, generate_instances

Capture = pytest.CaptureFixture[str]
KINDS = {"training": "training", "llm": "llm-inference", "inference": "inference"}


def line(event: InstanceEvent) -> str:
    """Return an event as Dilu's study writes it."""
    demand, minutes = event.demand, divmod(int(event.at_s), 60)
    instance = {
        "service_name": demand.name, "type": KINDS[demand.kind], "gpu_num": len(demand.memory_mb),
        "sm_requests": demand.share.request, "sm_limits": demand.share.limit,
        "memory": [mb // 1024 for mb in demand.memory_mb],
    }  # fmt: skip
    at = f"2024-06-19 15:{minutes[0]:02d}:{minutes[1]:02d}"
    return json.dumps({"Time": at, "Action": "start" if event.starts else "delete", "Instance": instance})


def test_all_studies_of_a_folder(tmp_path: Path, capsys: Capture) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    (data / "instances-40.txt").write_text("\n".join(map(line, generate_instances(40, 1))))
    (data / "rps_short.txt").write_text("\n".join(["3"] * 20 + ["9"] * 20))
    grid = [(b, s, (4 + b) / (10 * min(s, 70))) for b in (1, 2, 4, 8) for s in range(10, 101, 10)]
    (data / "a100_mine.csv").write_text("\n".join(f"{b},{s},{t}" for b, s, t in grid))
    trace = ["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"{n / 2},10,{20 + n % 50}" for n in range(60))]
    (data / "azure_llm_short.csv").write_text("\n".join(trace))
    found = as_json(capsys, "figures", "dilu", str(data), "--out", str(out))
    assert (found["kind"], found["paper"]) == ("figures", "dilu")
    rows = {(row["study"], row["workload"], row["rule"]) for row in found["rows"]}
    assert {study for study, _, _ in rows} == {"colocation", "scaling", "streams", "profile", "sharing"}
    assert ("colocation", "instances-40", "holes") in rows
    assert ("scaling", "rps_short x25 burst", "deficit") in rows
    assert ("streams", "azure_llm_short", "concurrency") in rows
    assert ("sharing", "mine + bert", "adaptive") in rows
    names = {entry.name for entry in out.iterdir()}
    assert {"instances-40-gpus.png", "rps_short-x10-scaling.svg", "pairs-sharing.png", "figures.csv"} <= names


def test_files_of_a_checkout_are_found_by_the_names_they_have_there(tmp_path: Path, capsys: Capture) -> None:
    results, workloads = tmp_path / "profiling" / "results", tmp_path / "scheduling" / "workloads"
    for folder in (results, workloads, tmp_path / ".git"):
        folder.mkdir(parents=True)
    grid = [(b, s, (4 + b) / (10 * min(s, 70))) for b in (1, 2, 4, 8) for s in range(10, 101, 10)]
    (results / "bs_sm_bert_base.csv").write_text("\n".join(f"{b},{s},{t}" for b, s, t in grid))
    (workloads / "sporadic.txt").write_text("\n".join(["3"] * 20))
    (tmp_path / ".git" / "bursty.txt").write_text("not data")
    rows = as_json(capsys, "figures", "dilu", str(tmp_path))["rows"]
    assert {(row["study"], row["workload"]) for row in rows} == {
        *(("scaling", f"sporadic x{times}{burst}") for times in (10, 25) for burst in ("", " burst")),
        ("profile", "bert_base at 50 ms"), ("sharing", "bert_base + bert"),
    }  # fmt: skip


def test_a_folder_without_data(tmp_path: Path, capsys: Capture) -> None:
    assert "no file of Dilu's data" in fails(capsys, "figures", "dilu", str(tmp_path))
    assert "no such folder" in fails(capsys, "figures", "dilu", str(tmp_path / "none"))
