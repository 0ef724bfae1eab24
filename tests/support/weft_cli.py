"""Calling the `weft` command in this process, against a scheduler that lives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from support.running.local_scheduler import Site
from weft.cli.main import main


class Said(NamedTuple):
    out: str
    err: str


@dataclass
class Weft:
    """The command, called in this process."""

    site: Site
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str, code: int | None = 0) -> Said:
        self.capsys.readouterr()
        found = main(words)
        said = Said(*self.capsys.readouterr())
        assert code is None or found == code, f"weft {' '.join(words)} gave {found}: {said}"
        assert "Traceback" not in said.err
        return said

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        out = self(words[0], "--json", *words[1:], code=code).out
        assert out.count("\n") == 1
        found = json.loads(out)
        assert found["schema"] == 1
        return dict(found)

    def submit(self, *words: str) -> str:
        """The id."""
        return self("submit", "--quiet", *words).out.strip()

    def show(self, job: str) -> dict[str, Any]:
        (found,) = self.json("show", job)["jobs"]
        return dict(found)

    def fails(self, *words: str, code: int = 2) -> str:
        """Return its message on stderr; nothing is on stdout, nothing is queued."""
        before = self.json("queue", "-a", "--limit", "10000")["jobs"]
        out, err = self(*words, code=code)
        assert out == ""
        assert len(self.json("queue", "-a", "--limit", "10000")["jobs"]) == len(before)
        return err
