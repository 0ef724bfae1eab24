"""The pages about workspaces agree with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli.commands.workspace import ACTIONS
from weft.workspace.keys import KEYS, Key

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = (ROOT / "docs" / "reference" / "workspace.md").read_text()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_key_is_in_the_reference_with_its_default(key: Key) -> None:
    if key.default is None:
        default = "required"
    elif isinstance(key.default, bool):
        default = f"`{str(key.default).lower()}`"
    else:
        default = f"`{key.default}`" if key.default != "" else "empty"
    assert f"| `{key.name}` | {default} | {key.meaning} |" in REFERENCE


def test_every_command_is_in_the_reference() -> None:
    assert all(f"| `{name}" in REFERENCE for name in ACTIONS)


def test_the_script_that_is_shown_is_the_one_that_is_run() -> None:
    script = (ROOT / "examples" / "workspace" / "train.py").read_text()
    assert f"```python\n{script}```" in (ROOT / "docs" / "howto" / "workspaces.md").read_text()
