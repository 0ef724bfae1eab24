"""`python -m support.release`: install the wheel in dist/ outside the tree; run a job, a simulation and the page."""

from __future__ import annotations

import os
import subprocess
import tempfile
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="weft-release-") as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        install = ("-m", "pip", "install", "-qq", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"))
        subprocess.run([f"{folder}/venv/bin/python", *install, f"{wheel}[all]"], check=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WEFT_"))}
        env |= dict.fromkeys(("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"), folder)
        weft = _Weft(f"{folder}/venv/bin/weft", folder, env)
        try:
            _check(weft)
        finally:
            weft("down", "--kill")
    print(f"{wheel.name} works")


class _Weft:
    def __init__(self, program: str, folder: str, env: dict[str, str]) -> None:
        self.program, self.folder, self.env = program, folder, env

    def __call__(self, *words: str) -> str:
        command = [self.program, *words]
        return subprocess.run(command, cwd=self.folder, env=self.env, check=True, stdout=-1, text=True).stdout


def _check(weft: _Weft) -> None:
    assert weft("version").startswith("weft 0."), "the version"
    assert weft("run", "--gpus", "0", "--", "echo", "released") == "released\n", "a job"
    assert "avg_jct_s" in weft("sim", "demo", "--cluster", "4x8", "--policy", "srsf"), "a simulation"
    words = [weft.program, "web", "--port", "0"]
    page = subprocess.Popen(words, cwd=weft.folder, env=weft.env, stdout=subprocess.PIPE, text=True)
    try:
        assert page.stdout is not None
        link = next(word for line in page.stdout for word in line.split() if word.startswith("http"))
        with urllib.request.urlopen(link, timeout=20) as answer:
            assert answer.status == 200, "the page"
    finally:
        page.terminate()
        page.wait(20)


if __name__ == "__main__":
    main()
