"""The commands that the pages show, and what they print. Run as a program it brings the pages up to date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "weft-deadline"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if BLOCK.search(page.read_text())
]
PATIENCE_S = 60
UNSTEADY = "cpu_s"


class Shown(NamedTuple):
    command: str
    output: str


def shown(block: str) -> Iterator[Shown]:
    """The commands of a block, each with the lines under it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Shown(command, output)


def steady(output: str) -> list[list[str]]:
    """Its words, without what is different each time: CPU seconds, by name or under their heading."""
    lines = [line.split() for line in output.splitlines()]
    for line in lines:
        if line[:1] == [UNSTEADY]:
            line[1:] = []
    if lines and UNSTEADY in lines[0]:
        at = lines[0].index(UNSTEADY)
        for line in lines[1:]:
            line[at : at + 1] = []
    return lines


def install(site: Path) -> dict[str, str]:
    """An environment in which the example is installed, made without a package registry."""
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
    python_path = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    path = [str(Path(sys.executable).parent), os.environ["PATH"]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(python_path), "PATH": os.pathsep.join(path)}


def run(command: str, env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """As a reader would, in a folder of his own."""
    words = ["bash", "-c", f"exec 2>&1; {command}"]
    return subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def updated(page: Path, env: dict[str, str], folder: Path) -> str:
    """The page with what its commands print today; lines that differ in CPU seconds only stay."""

    def again(block: re.Match[str]) -> str:
        parts = []
        for command, output in shown(block[0]):
            found = run(command, env, folder).stdout
            parts.append(f"$ {command}\n{output if steady(found) == steady(output) else found}")
        return "".join(parts)

    return BLOCK.sub(again, page.read_text())


def main() -> None:
    for page in PAGES:
        with tempfile.TemporaryDirectory() as site, tempfile.TemporaryDirectory() as folder:
            shutil.copy(EXAMPLES / "mine.py", folder)
            page.write_text(updated(page, install(Path(site)), Path(folder)))


if __name__ == "__main__":
    main()
