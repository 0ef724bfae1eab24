"""`weft validate`: the kind of a file and what it holds, or its first error with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_call import Capture, as_json
from weft.cli.file_kinds import KINDS
from weft.cli.main import main
from weft.history.journal.codec import seal
from weft.history.journal.jsonl import HEADER
from weft.model import Wake

VALID = {
    "tasks.yaml": ("- {name: a, command: [true]}\n- {name: b, command: 'true', after: a}\n", "tasks", "2 tasks"),
    "one.json": ('{"command": ["true"], "gpus": 1}', "tasks", "1 task"),
    "job.sh": ("#!/bin/sh\n#SBATCH --gpus=1\n#SBATCH --time=10\ntrue\n", "script", "3 options"),
    "nodes.yaml": ("nodes: [{count: 2, gpus: 4}]\n", "cluster", "2 nodes, 8 GPUs"),
    "muri.csv": (
        "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,2,8,92,520\n", "cluster",
        "2 nodes, 16 GPUs",
    ),
    "trace.csv": ("job_id,submit_s,gpus,duration_s\n0,0.0,1,9.4\n", "trace", "1 job, format weft"),
    "trials.csv": ("lr,gpus\n0.1,1\n0.01,2\n", "sweep", "2 trials of lr, gpus"),
    "trials.yaml": ("- {lr: 0.1, seed: 1}\n- {lr: 0.01, seed: 2}\n", "sweep", "2 trials of lr, seed"),
    "grid.yaml": ("lr: [0.1, 0.01]\nseed: 1..3\n", "sweep", "6 trials of lr, seed"),
    "teams.yaml": ("teams:\n  vision: {guarantee: 2, teams: {ar: {members: [ada]}}}\n", "teams", "2 teams"),
    "chat.yaml": ("service: chat\nrun: [serve]\n", "service", "chat"),
    "notify.yaml": ("targets: {me: {desktop: true}}\n", "targets", "1 target"),
    "weft.yaml": ("memory: 8G\ntime: 2h\n", "project", "2 settings"),
    "config.yaml": ("scheduler: local\n", "config", "1 setting"),
    "journal.jsonl": (f'{HEADER.decode()}{seal(Wake(1.0), 1)}\n', "journal", "1 fact"),
}  # fmt: skip

BAD = {
    "tasks.yaml": ("- command: [true]\n- command: [true]\n  gpus: many\n", 3, "gpus"),
    "nocommand.yaml": ("- {gpus: 1}\n- {name: x}\n", 1, "no command"),
    "job.sh": ("#!/bin/sh\n#SBATCH --time=soon\ntrue\n", 2, "time"),
    "nodes.yaml": ("nodes:\n  - {count: 2}\n", 2, "gpus"),
    "trace.csv": ("job_id,submit_s,gpus,duration_s\n0,0.0,one,9.4\n", 2, "gpus"),
    "columns.csv": ("submit_s,gpus\n0.0,1\n", 1, "needs a column 'duration_s'"),
    "trials.csv": ("lr,seed\n0.1,1\n0.01,\n", 3, "seed is empty"),
    "trials.yaml": ("- {lr: 0.1, seed: 1}\n- {lr: 0.01}\n", 2, "the trial has lr"),
    "teams.yaml": ("teams:\n  vision: {guarantee: many}\n", 2, "guarantee"),
    "chat.yaml": ("service: chat\nrun: [serve]\nreplicas: -1\n", 3, "replicas"),
    "weft.yaml": ("memory: 8G\nscheduler: elsewhere:1\n", 2, "unknown key of a config 'scheduler'"),
    "config.yaml": ("scheduler: local\ntime: soon\n", 2, "time"),
    "what.yaml": ("color: red\n", 1, "the kind of this file is not known"),
    "torn.yaml": ("a: [1,\n", 2, ""),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_kind_is_recognised(folder: Path, capsys: Capture) -> None:
    for name, (text, _, _) in VALID.items():
        (folder / name).write_text(text)
    rows = as_json(capsys, "validate", *VALID)["files"]
    found = {row["file"]: (row["kind"], row["holds"] or row["error"]) for row in rows}
    assert found == {name: (kind, holds) for name, (_, kind, holds) in VALID.items()}
    assert {kind for _, kind, _ in VALID.values()} == {kind.name for kind in KINDS} - {"services"}
    assert main(["validate", "nodes.yaml"]) == 0
    assert capsys.readouterr().out == "nodes.yaml: cluster, 2 nodes, 8 GPUs\n"


@pytest.mark.parametrize("name", BAD)
def test_the_first_error_has_its_line(folder: Path, capsys: Capture, name: str) -> None:
    text, line, what = BAD[name]
    (folder / name).write_text(text)
    assert main(["validate", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"weft: error: {name}:{line}: ")
    assert what in err
    assert "Traceback" not in err


def test_files_that_cannot_be_read_and_kinds_that_are_given(folder: Path, capsys: Capture) -> None:
    assert main(["validate", "gone.yaml"]) == 2
    assert "gone.yaml: No such file" in capsys.readouterr().err
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert main(["validate", "binary.yaml", "."]) == 2
    (folder / "t.yaml").write_text("nodes: [{gpus: 1}]\n")
    assert main(["validate", "--kind", "tasks", "t.yaml"]) == 2
    assert "unknown key" in capsys.readouterr().err
