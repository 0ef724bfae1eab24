"""Every plugin file is registered: policies, placements, trace formats, commands and their actions."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

from weft.cli.commands.trace import convert
from weft.cli.main import COMMANDS
from weft.sim.traces.formats import NAMES, all_formats
from weft.sim.traces.writers import WRITERS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "weft"
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
WITHOUT_ENTRY_POINT = {"policies": set[str](), "placements": {"classic"}, "scaling": {"port", "recent", "capacity"}}
"""`classic` adapts a user's function, which `--placement path/file.py:assign` names."""
SHARED_BY_FORMATS = {"columns", "draft"}
GROUPS = sorted(path.parent.name for path in (SOURCE / "cli" / "commands").glob("*/__init__.py"))


SCHEDULING = SOURCE / "scheduling"


def modules(folder: Path) -> set[str]:
    """Return the names of the modules and packages in a folder."""
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return packages | {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}


@pytest.mark.parametrize("room", WITHOUT_ENTRY_POINT)
def test_every_policy_and_placement_has_an_entry_point(room: str) -> None:
    group = {"scaling": "weft.scalers"}.get(room, f"weft.{room}")
    named = {target.partition(":")[0].rpartition(".")[2] for target in ENTRY_POINTS[group].values()}
    assert named == modules(SCHEDULING / room) - WITHOUT_ENTRY_POINT[room]


def test_every_trace_format_is_listed() -> None:
    assert set(NAMES) == modules(SOURCE / "sim" / "traces" / "formats") - SHARED_BY_FORMATS
    assert tuple(each.name for each in all_formats()) == NAMES


def test_every_format_that_can_be_written_can_be_chosen() -> None:
    assert set(convert.FORMATS) == set(WRITERS)


def test_every_command_is_listed() -> None:
    assert set(COMMANDS) == modules(SOURCE / "cli" / "commands")


@pytest.mark.parametrize("group", GROUPS)
def test_every_action_of_a_command_is_listed(group: str) -> None:
    package = importlib.import_module(f"weft.cli.commands.{group}")
    renamed = getattr(package, "MODULES", {})
    named = {renamed.get(name, name.replace("-", "_")) for name in package.ACTIONS if name != "help"}
    assert named == modules(SOURCE / "cli/commands" / group)
