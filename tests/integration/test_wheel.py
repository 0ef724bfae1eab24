"""The wheel: what a user without a clone has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import weft

REPOSITORY = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src", "examples")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel."""
    source, into = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for part in PARTS:
        copy = shutil.copytree if (REPOSITORY / part).is_dir() else shutil.copy
        copy(REPOSITORY / part, source / part)
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "all"], cwd=source, check=True)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(into), "."]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = into.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    return into


def _run(installed: Path, folder: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(installed), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_wheel_says_of_which_commit_it_is(installed: Path, tmp_path: Path) -> None:
    found = _run(installed, tmp_path, sys.executable, "-c", "import weft; print(weft.__version__)").strip()
    version, _, commit = found.partition("+")
    assert version == weft.__version__
    assert len(commit) == 8
    assert _run(installed, tmp_path, sys.executable, "-m", "weft", "--version") == f"weft {found}\n"


def test_the_wheel_has_the_examples_and_the_scripts_for_workspaces(installed: Path, tmp_path: Path) -> None:
    assert "weft-examples/examples" in _run(installed, tmp_path, sys.executable, "-m", "weft", "examples")
    files = subprocess.run(["git", "ls-files", "examples"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    missing = [name for name in files.stdout.split() if not (tmp_path / "weft-examples" / name).exists()]
    assert missing in ([], ["examples/ruff.toml"])
    script = tmp_path / "weft-examples/src/scripts/scheduler/setup_workspace.sh"
    _run(installed, tmp_path, "sh", str(script), "space")
    assert (tmp_path / "space" / "scheduler_config.yml").exists()


@pytest.mark.parametrize("module", ["weft", "weft.policy", "weft.serve", "weft.sim", "weft.train"])
def test_the_wheel_has_the_public_names(installed: Path, tmp_path: Path, module: str) -> None:
    program = f"import {module} as it; print(all(getattr(it, name) is not None for name in it.__all__), it.__file__)"
    answer, file = _run(installed, tmp_path, sys.executable, "-c", program).split()
    assert answer == "True"
    assert file.startswith(str(installed))
