"""The starter is small: every shim begins as a copy of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import weft

LARGE = {"asyncio", "dataclasses", "inspect", "logging", "subprocess", "pathlib", "weft.model", "weft.scheduling.core"}


def test_it_imports_little() -> None:
    source = str(Path(weft.__file__).parents[1])
    code = f"import sys; sys.path.append({source!r}); import weft.node.engine.shim.starter; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(said.split())
    assert "weft.node.engine.shim.shim" in loaded
    assert not loaded & LARGE
    assert len(loaded) < 120
