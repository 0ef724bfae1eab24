"""A policy from another package: the how-to's example is found, runs, passes its tests. Pages show what comes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.console import BLOCK, EXAMPLE, EXAMPLES, PAGES, PROJECT, ROOT, install, run, shown, steady

HOW_TO = ROOT / "docs" / "howto" / "write-a-policy.md"
POLICIES = sorted(PROJECT["entry-points"]["weft.policies"])
PLACEMENTS = sorted(PROJECT["entry-points"]["weft.placements"])

SHOWN_FILE = re.compile(r"^\[`[^`]+`\]\(([^)]+)\)[^\n]*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return install(tmp_path_factory.mktemp("site"))


def weft(env: dict[str, str], *words: str, cwd: Path = EXAMPLES) -> str:
    done = subprocess.run(["weft", *words], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_is_listed(env: dict[str, str]) -> None:
    listed = json.loads(weft(env, "policies", "--json"))
    assert set(POLICIES) <= {entry["name"] for entry in listed["policies"]}
    assert set(PLACEMENTS) <= {entry["name"] for entry in listed["placements"]}
    due = next(entry for entry in listed["policies"] if entry["name"] == "due")
    assert due["options"] == [{"name": "slack", "values": "number", "default": "3"}]


@pytest.mark.parametrize("model", ["real", "muri"])
@pytest.mark.parametrize("policy", [*POLICIES, "due:slack=1.5", "mine.py:Mine"])
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
    page = HOW_TO
    shown = {(page.parent / link).resolve(): code for link, code in SHOWN_FILE.findall(page.read_text())}
    for path, code in shown.items():
        assert code == path.read_text(), f"{page.name} shows another {path.relative_to(ROOT)}"
    policies = (
        path for path in EXAMPLES.rglob("*.py") if path.parent.name not in ("jobs", "services", "sweeps", "workspace")
    )
    sources = {path for path in policies if path.name != "__init__.py"}
    assert shown.keys() == sources | {EXAMPLE / "pyproject.toml"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(env: dict[str, str], page: Path, tmp_path: Path) -> None:
    """One after the other, as a reader would. `python tests/support/console.py` brings the pages up to date."""
    shutil.copy(EXAMPLES / "mine.py", tmp_path)
    env = {**env, "XDG_STATE_HOME": f"{env['XDG_STATE_HOME']}-{page.stem}"}  # the first job of each page is job 1
    for block in BLOCK.findall(page.read_text()):
        for command, output in shown(block):
            found = run(command, env, tmp_path)
            assert steady(found) == steady(output), f"{page.name}: {command}\n{found}"


def test_only_cpu_seconds_may_differ() -> None:
    table = "demo\npolicy  avg JCT  CPU s\nfifo  {}  {}\n\nfifo  x1\n"
    assert steady(table.format(5, 0.01)) == steady(table.format(5, 0.0123))
    assert steady(table.format(5, 0.01)) != steady(table.format(6, 0.01))
    pairs = "jobs  {}\nCPU seconds  {}\n"
    assert steady(pairs.format(5, 0.1)) == steady(pairs.format(5, 0.2)) != steady(pairs.format(6, 0.1))
