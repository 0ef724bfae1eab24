"""The worked change of CONTRIBUTING applies to the repository as it is, and its files exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_worked_change_applies() -> None:
    """Forwards, or backwards while a reader tries it."""
    diff = re.search(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert diff
    tries = [
        subprocess.run(["git", "apply", "--check", *options], cwd=ROOT, input=diff[1], text=True, capture_output=True)
        for options in ([], ["--reverse"])
    ]
    assert not all(done.returncode for done in tries), tries[0].stderr


def test_the_files_to_read_exist() -> None:
    first_hour = PAGE.partition("## Your first hour")[2].partition("###")[0]
    files = re.findall(r"^\| `([^`]+)` \|", first_hour, re.MULTILINE)
    assert len(files) == 8
    assert [file for file in files if not (ROOT / "src" / "weft" / file).is_file()] == []
