"""Commands typed by several users of this machine. Takes root; the users need not exist."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CAPABILITY = "+dac_read_search"
"""Lets a user read the interpreter and the source wherever they are, and write nothing."""


@dataclass
class User:
    uid: int
    root: Path

    @property
    def env(self) -> dict[str, str]:
        state, runtime = f"{self.root}/s", f"{self.root}/r"
        where = {"HOME": str(self.root), "XDG_STATE_HOME": state, "XDG_RUNTIME_DIR": runtime}
        return {"PATH": os.environ["PATH"], "USER": f"user{self.uid}", **where}

    def weft(self, *words: str, code: int | None = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = self.python("-m", "weft", *words, stdin=stdin)
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def python(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        become += [f"--inh-caps={CAPABILITY}", f"--ambient-caps={CAPABILITY}", "--", sys.executable]
        return subprocess.run(
            [*become, *words], env=self.env, cwd=self.root, input=stdin, capture_output=True, text=True, timeout=180,
            check=False,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        return json.loads(self.weft(*words, "--json").stdout)


@contextlib.contextmanager
def users(*uids: int) -> Iterator[tuple[Path, list[User]]]:
    """Yield a folder that all users can read, and the users, each with a home of their own. Skip without root."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("it takes root and setpriv to be two users")
    root = Path(tempfile.mkdtemp(prefix="weft-u-"))
    root.chmod(0o755)
    made = [User(uid, root / str(uid)) for uid in uids]
    for user in made:
        user.root.mkdir(mode=0o700)
        os.chown(user.root, user.uid, user.uid)
    try:
        tried = made[0].python("-c", "import weft.cli.main")
        if tried.returncode:
            pytest.skip(f"another user cannot run this interpreter: {tried.stderr.strip()[-200:]}")
        yield root, made
    finally:
        for user in made:
            user.weft("down", "--kill", code=None)
        shutil.rmtree(root, ignore_errors=True)
