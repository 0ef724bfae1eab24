"""The public surface: docs/reference/python.md, and nothing else in examples and docs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = ("weft", "weft.policy", "weft.serve", "weft.sim", "weft.train")
PAGE = (ROOT / "docs/reference/python.md").read_text()
SHOWN = [
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    if "decisions" not in path.parts
]
IMPORT = re.compile(r"^ *(?:from (weft[\w.]*) import|import (weft[\w.]*))", re.MULTILINE)


@pytest.mark.parametrize("module", ["weft", "weft.policy", "weft.sim"])
def test_every_public_name_is_there_and_on_the_page(module: str) -> None:
    found = importlib.import_module(module)
    for name in found.__all__:
        assert getattr(found, name) is not None
        assert re.search(rf"\b{name}\b", PAGE), f"{module}.{name} is not in docs/reference/python.md"


def test_docs_and_examples_import_public_modules_only() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for path in SHOWN
        for match in IMPORT.finditer(path.read_text())
        if not (module := match[1] or match[2]).startswith(("weft_", "weft.train")) and module not in PUBLIC
    }
    assert found == set()
