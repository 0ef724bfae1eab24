"""The commands that the pages show, and what they print. Run as a program it brings the pages up to date."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "weft-deadline"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if BLOCK.search(page.read_text())
]
PATIENCE_S = 60
COLUMN, LINE = ["CPU", "s"], ["CPU", "seconds"]
"""Output that differs each time."""
LINES, COLUMNS = 50, 120


class Shown(NamedTuple):
    command: str
    output: str


def shown(block: str) -> Iterator[Shown]:
    """The commands of a block, each with the lines under it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Shown(command, output)


def steady(output: str) -> list[list[str]]:
    """Its words, without what is different each time: CPU seconds, in a line or a last column of their own."""
    lines, unsteady = [], False
    for words in map(str.split, output.splitlines()):
        unsteady = words[-2:] == COLUMN or (unsteady and bool(words))
        lines.append(words[:2] if words[:2] == LINE else words[: -1 if unsteady else None])
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
    own = {"XDG_STATE_HOME": str(site / ".state"), "XDG_RUNTIME_DIR": str(site / ".run")}
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(python_path), "PATH": os.pathsep.join(path)}


def run(command: str, env: dict[str, str], folder: Path) -> str:
    """Return what a reader sees on a terminal without colours, in an empty folder."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    words = ["bash", "-c", command]
    env = {**env, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    with subprocess.Popen(words, env=env, cwd=folder, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        output = b"".join(_chunks(ours)).decode()
        os.close(ours)
        _, errors = process.communicate(timeout=PATIENCE_S)
    lines = (output.replace("\r\n", "\n") + errors).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _chunks(terminal: int) -> Iterator[bytes]:
    with suppress(OSError):  # the other end is closed
        while chunk := os.read(terminal, 65536):
            yield chunk


def updated(page: Path, env: dict[str, str], folder: Path) -> str:
    """The page with what its commands print today; lines that differ in CPU seconds only stay."""

    def again(block: re.Match[str]) -> str:
        parts = []
        for command, output in shown(block[0]):
            found = run(command, env, folder)
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
