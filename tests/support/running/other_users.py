"""Commands typed by several users of this machine, with accounts that exist while the test runs. Takes root."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

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
        return {"PATH": os.environ["PATH"], "USER": self.name, **where}

    @property
    def name(self) -> str:
        return f"weft-test-{self.uid}"

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

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a program with the rights of this user and no more."""
        gid = pwd.getpwuid(self.uid).pw_gid
        return subprocess.run(
            list(map(str, words)), user=self.uid, group=gid, extra_groups=[], cwd="/", capture_output=True, text=True,
            timeout=60, check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        return json.loads(self.weft(*words, "--json").stdout)


@contextlib.contextmanager
def users(count: int) -> Iterator[tuple[Path, list[User]]]:
    """Yield a folder that all users can read, and users, each with a new account and a home. Skip without root."""
    if os.geteuid() != 0:
        pytest.skip("it takes root to create users and to run commands as they")
    if missing := [program for program in ("setpriv", "useradd", "userdel") if shutil.which(program) is None]:
        _give_up(f"{', '.join(missing)} not found: Debian has them in util-linux and passwd")
    root = Path(tempfile.mkdtemp(prefix="weft-u-"))
    root.chmod(0o755)
    made: list[User] = []
    try:
        for uid in _free_uids(count):
            user = User(uid, root / str(uid))
            made.append(user)
            _create(user)
        tried = made[0].python("-c", "import weft.cli.main")
        if tried.returncode:
            _give_up(f"another user cannot run this interpreter: {tried.stderr.strip()[-200:]}")
        yield root, made
    finally:
        for user in made:
            user.weft("down", "--kill", code=None)
            subprocess.run(["userdel", "--force", user.name], capture_output=True, check=False)
        shutil.rmtree(root, ignore_errors=True)


def _give_up(why: str) -> NoReturn:
    """Skip; where tests run unattended and as root, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def _free_uids(count: int) -> list[int]:
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    first = 61000 + os.getpid() % 90 * 10  # other tests may look for free numbers at the same moment
    return [uid for uid in range(first, first + 1000) if uid not in taken][:count]


def _create(user: User) -> None:
    words = ["useradd", "--uid", str(user.uid), "--user-group", "--no-create-home", "--home-dir", str(user.root)]
    done = subprocess.run([*words, user.name], capture_output=True, text=True, check=False)
    if done.returncode:
        _give_up(f"no account can be created: {done.stderr.strip()[-200:]}")
    user.root.mkdir(mode=0o700)
    os.chown(user.root, user.uid, user.uid)
