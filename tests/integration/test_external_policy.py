"""A policy from another package: the how-to's example is found, runs, passes its tests, and is what the page shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "weft-deadline"
PAGES = [ROOT / "docs" / "quickstart.md", ROOT / "docs" / "howto" / "write-a-policy.md"]
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
POLICIES = sorted(PROJECT["entry-points"]["weft.policies"])
PLACEMENTS = sorted(PROJECT["entry-points"]["weft.placements"])

SHOWN_FILE = re.compile(r"^\[`[^`]+`\]\(([^)]+)\)[^\n]*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (weft .+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed, made without a package registry."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE / "src", site, dirs_exist_ok=True)
    metadata = site / f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n"
    )
    groups = (
        (group, "\n".join(f"{k} = {v}" for k, v in points.items())) for group, points in PROJECT["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(f"[{group}]\n{lines}\n" for group, lines in groups))
    binaries = Path(sys.executable).parent
    return {**os.environ, "PYTHONPATH": str(site), "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}


def weft(env: dict[str, str], *words: str, cwd: Path = EXAMPLES) -> str:
    done = subprocess.run(["weft", *words], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_is_listed(env: dict[str, str]) -> None:
    listed = json.loads(weft(env, "policies", "--json"))
    assert set(POLICIES) <= {entry["name"] for entry in listed["policies"]}
    assert set(PLACEMENTS) <= {entry["name"] for entry in listed["placements"]}
    edf = next(entry for entry in listed["policies"] if entry["name"] == "edf")
    assert edf["options"] == [{"name": "slack", "values": "number", "default": "3"}]


@pytest.mark.parametrize("model", ["real", "muri"])
@pytest.mark.parametrize("policy", [*POLICIES, "edf:slack=1.5", "mine.py:Mine"])
def test_its_policies_run(env: dict[str, str], policy: str, model: str) -> None:
    found = json.loads(weft(env, "sim", "demo", "--cluster", "4x8", "--policy", policy, "--model", model, "--json"))
    assert (found["policy"], found["jobs"], found["unfinished"]) == (policy, 200, 0)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_its_placements_run(env: dict[str, str], placement: str) -> None:
    found = json.loads(weft(env, "sim", "demo", "--cluster", "4x8", "--placement", placement, "--json"))
    assert (found["placement"], found["jobs"]) == (placement, 200)


def test_its_own_tests_pass(env: dict[str, str], tmp_path: Path) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("*_cache", "__pycache__"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, env=env, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_how_to_shows_the_files_as_they_are() -> None:
    page = PAGES[1]
    shown = {(page.parent / link).resolve(): code for link, code in SHOWN_FILE.findall(page.read_text())}
    for path, code in shown.items():
        assert code == path.read_text(), f"{page.name} shows another {path.relative_to(ROOT)}"
    sources = {path for path in EXAMPLES.rglob("*.py") if path.name != "__init__.py"}
    assert shown.keys() == sources | {EXAMPLE / "pyproject.toml"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(env: dict[str, str], page: Path, tmp_path: Path) -> None:
    """One after the other, as a reader would; those that are to fail say so in what they print."""
    shutil.copy(EXAMPLES / "mine.py", tmp_path)
    commands = [(line, block) for block in CONSOLE.findall(page.read_text()) for line in COMMAND.findall(block)]
    assert commands
    for command, block in commands:
        done = subprocess.run(["bash", "-c", command], env=env, cwd=tmp_path, capture_output=True, text=True)
        fails = "weft: error:" in block
        assert (done.returncode != 0) == fails, f"{command}\n{done.stdout}{done.stderr}"
        if fails:
            assert done.stderr.splitlines()[0] in block, command
