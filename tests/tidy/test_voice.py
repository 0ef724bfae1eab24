"""Documents and examples use plain technical English, without the phrases that CONTRIBUTING asks to avoid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALONE = (
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "Makefile",
    "docs/architecture.md",
    "docs/quickstart.md",
)
FOLDERS = ("docs/howto", "docs/reference", "docs/decisions", "examples")
SUFFIXES = {".md", ".py", ".sh", ".yml", ".toml"}
PAGES = [
    *(ROOT / name for name in ALONE),
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*")) if page.suffix in SUFFIXES),
]
BANNED_PHRASES = (
    "whoever", "those who", "nobody", "somebody", "anew", "beside",
    "so many", "so long", "is said", "is told", "of its own",
)  # fmt: skip
BANNED = re.compile(rf"\b(?:{'|'.join(BANNED_PHRASES)})\b", re.IGNORECASE)
QUOTED = re.compile(r"^```.*?^```$|`[^`\n]*`|\*[^*\n]*\*|^\| instead of \|.*?\n\n", re.MULTILINE | re.DOTALL)
"""Code, output of commands, and the phrases themselves where CONTRIBUTING lists them."""


def prose(text: str) -> str:
    """Return the text with everything quoted blanked out; line numbers stay."""
    return QUOTED.sub(lambda quote: re.sub(r"[^\n]", " ", quote[0]), text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_avoid_banned_phrases(page: Path) -> None:
    lines = prose(page.read_text()).splitlines()
    found = [
        f"{page.name}:{at}: {match[0]}" for at, line in enumerate(lines, start=1) for match in BANNED.finditer(line)
    ]
    assert not found, found


def test_contributing_lists_the_banned_phrases() -> None:
    listed = re.search(r"- Avoid \*([^*]+)\*", (ROOT / "CONTRIBUTING.md").read_text())
    assert listed
    assert tuple(re.split(r",\s+", listed[1])) == BANNED_PHRASES


def test_quotes_do_not_count() -> None:
    assert not BANNED.search(prose("Say `nobody`.\n```\nis told\n```\n"))
    assert BANNED.search(prose("Nobody says so."))
