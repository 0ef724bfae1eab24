"""The table of what became of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.recovery.run_record import Evidence, Fate, fence, judge, read_evidence
from weft.node.engine.shim.process_id import Identity

SHIM = Identity("boot", 5, 100)
NAMES = {"job": "a", "run": 1, "token": "t", "shim": list(SHIM)}
CLAIM = {"is": "claimed", **NAMES}
STARTED = {"is": "started", **NAMES, "leader": ["boot", 6, 101], "at": 1.0}
ENDED = {"is": "exited", **NAMES, "code": 0, "at": 2.0}
EXITED = RunExited(2.0, "a", 1, code=0)


@pytest.mark.parametrize(
    ("evidence", "boot", "alive", "expected"),
    [
        (Evidence(exited=EXITED), "boot", True, "finished"),
        (Evidence(exited=EXITED), "other", False, "finished"),
        (Evidence(), "boot", False, "unclaimed"),
        (Evidence(None, {"fenced": True}, True), "boot", False, "fenced"),
        (Evidence(None, STARTED, True), "boot", True, "alive"),
        (Evidence(None, CLAIM, True), "boot", True, "alive"),
        (Evidence(None, STARTED, True), "boot", False, "lost"),
        (Evidence(None, CLAIM, True), "boot", False, "lost"),
        (Evidence(None, STARTED, True), "other", True, "reboot"),
        (Evidence(None, ENDED, True), "boot", True, "alive"),
        (Evidence(None, ENDED, True), "boot", False, "finished"),
        (Evidence(None, ENDED, True), "other", False, "finished"),
        (Evidence(None, None, True), "boot", True, "unclear"),
        (Evidence(None, None, True, written_before_boot=True), "boot", True, "reboot"),
    ],
)
def test_table(evidence: Evidence, boot: str, alive: bool, expected: Fate) -> None:
    assert judge(evidence, boot, lambda _: alive) == expected


def test_files_as_they_are_found(tmp_path: Path) -> None:
    assert read_evidence(str(tmp_path), 0.0) == Evidence()
    claim = tmp_path / "claim.json"
    claim.write_text("")
    assert read_evidence(str(tmp_path), 0.0) == Evidence(claimed=True)
    assert read_evidence(str(tmp_path), 4e9) == Evidence(claimed=True, written_before_boot=True)
    claim.write_bytes(json.dumps(CLAIM).encode() + bytes(100))
    assert read_evidence(str(tmp_path), 0.0).shim == SHIM
    assert read_evidence(str(tmp_path), 0.0).started is None
    claim.write_text(json.dumps(STARTED))
    claim.rename(tmp_path / "started.json")
    found = read_evidence(str(tmp_path), 0.0)
    assert found.started == RunStarted(1.0, "a", 1, Identity("boot", 6, 101), SHIM)
    assert (found.shim, found.token, found.ended) == (SHIM, "t", None)
    (tmp_path / "started.json").write_text(json.dumps(ENDED))
    assert read_evidence(str(tmp_path), 0.0).ended == EXITED
    (tmp_path / "exit.json").write_text('{"is": "exited", "at": 1, "job": "a", "run": "x"}')
    assert read_evidence(str(tmp_path), 0.0).exited is None


@pytest.mark.parametrize("name", ["started.json", "exit.json"])
def test_what_has_started_is_not_fenced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert not fence(str(tmp_path))
    assert not (tmp_path / "claim.json").exists()


def test_one_of_two_gets_the_fence(tmp_path: Path) -> None:
    folder = str(tmp_path / "a" / "1")
    assert fence(folder)
    assert not fence(folder)
    assert judge(read_evidence(folder, 0.0), "boot", lambda _: False) == "fenced"
