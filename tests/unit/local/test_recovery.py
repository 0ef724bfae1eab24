"""The table of what became of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.local.identity import Identity
from weft.local.recovery import Evidence, Fate, fate, fence, look
from weft.local.reports import RunExited, RunStarted

SHIM = Identity("boot", 5, 100)
CLAIM = {"job": "a", "run": 1, "token": "t", "shim": list(SHIM)}
STARTED = RunStarted(1.0, "a", 1, Identity("boot", 6, 101), SHIM)
EXITED = RunExited(2.0, "a", 1, code=0)


@pytest.mark.parametrize(
    ("evidence", "boot", "alive", "expected"),
    [
        (Evidence(exited=EXITED, started=STARTED, claimed=True, claim=CLAIM), "boot", True, "finished"),
        (Evidence(exited=EXITED), "other", False, "finished"),
        (Evidence(), "boot", False, "unclaimed"),
        (Evidence(claimed=True, claim={"fenced": True}), "boot", False, "fenced"),
        (Evidence(started=STARTED, claimed=True, claim=CLAIM), "boot", True, "alive"),
        (Evidence(claimed=True, claim=CLAIM), "boot", True, "alive"),
        (Evidence(started=STARTED, claimed=True, claim=CLAIM), "boot", False, "lost"),
        (Evidence(claimed=True, claim=CLAIM), "boot", False, "lost"),
        (Evidence(started=STARTED, claimed=True, claim=CLAIM), "other", True, "reboot"),
        (Evidence(claimed=True), "boot", True, "unclear"),
        (Evidence(claimed=True, written_before_boot=True), "boot", True, "reboot"),
    ],
)
def test_table(evidence: Evidence, boot: str, alive: bool, expected: Fate) -> None:
    assert fate(evidence, boot, lambda _: alive) == expected


def test_files_as_they_are_found(tmp_path: Path) -> None:
    assert look(str(tmp_path), 0.0) == Evidence()
    claim = tmp_path / "claim.json"
    claim.write_text("")
    assert look(str(tmp_path), 0.0) == Evidence(claimed=True)
    assert look(str(tmp_path), 4e9) == Evidence(claimed=True, written_before_boot=True)
    claim.write_bytes(json.dumps(CLAIM).encode() + bytes(100))
    assert look(str(tmp_path), 0.0).shim == SHIM
    (tmp_path / "exit.json").write_text('{"is": "exited", "at": 1, "job": "a", "run": "x"}')
    assert look(str(tmp_path), 0.0).exited is None


def test_one_of_two_gets_the_fence(tmp_path: Path) -> None:
    folder = str(tmp_path / "a" / "1")
    assert fence(folder)
    assert not fence(folder)
    assert fate(look(folder, 0.0), "boot", lambda _: False) == "fenced"
