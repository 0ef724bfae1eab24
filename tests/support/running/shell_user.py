"""A user with an empty home who types commands."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.plain_env import plain_env


@dataclass
class Person:
    """A user with an empty home, and the commands they type."""

    root: Path
    env: dict[str, str]

    def weft(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "weft", *words], env=self.env, cwd=self.root, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self.weft(*words, "--json").stdout)

    def processes(self) -> dict[str, int]:
        """By name, as the record has them."""
        (path,) = (self.root / "s" / "weft" / "clusters").glob("*.json")
        return {each["name"]: each["who"][1] for each in json.loads(path.read_text())["processes"]}

    def run(self, *words: str) -> str:
        """Another command than weft; what it prints."""
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def left(self, state: str = "") -> list[str]:
        """Processes that know of this home, or of another's."""
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                mine = f"XDG_STATE_HOME={state or self.env['XDG_STATE_HOME']}".encode() in environ.read_bytes().split(
                    b"\0"
                )
            except OSError:
                continue
            found += [environ.parent.name] if mine else []
        return found


@contextlib.contextmanager
def person_at() -> Iterator[Person]:
    root = Path(tempfile.mkdtemp(prefix="weft-u-"))
    keep = plain_env()
    folders = {"XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r", "XDG_CONFIG_HOME": f"{root}/c"}
    made = Person(root, {**keep, **folders, "HOME": str(root)})
    try:
        yield made
    finally:
        for record in (root / "s" / "weft" / "clusters").glob("*.json"):
            made.weft("cluster", "down", "-y", "--port", record.stem.rpartition("_")[2], code=None)
        shutil.rmtree(root, ignore_errors=True)
