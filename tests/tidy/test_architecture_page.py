"""The page about the architecture shows the layers that are enforced, and names files that exist."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
TABLE = PAGE.partition("## Where do I change X?")[2]


def test_the_layers_are_those_of_the_import_contract() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:layers"]["layers"].strip()
    assert f"```\n{layers}\n```" in PAGE


def test_the_files_to_touch_exist() -> None:
    named = [name for name in re.findall(r"`([\w/.]+/[\w.]*)`", TABLE) if "NAME" not in name]
    assert len(named) > 30
    assert [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "src/weft"))] == []
