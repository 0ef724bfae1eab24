"""Documents, examples and source use plain technical English, without the phrases that CONTRIBUTING asks to avoid."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BANNED_PHRASES = (
    "whoever", "those who", "nobody", "somebody", "anew", "beside",
    "so many", "so long", "is said", "is told", "of its own",
)  # fmt: skip
BANNED = re.compile(rf"\b(?:{'|'.join(BANNED_PHRASES)})\b", re.IGNORECASE)
QUOTED = re.compile(r"^```.*?^```$|`[^`\n]*`|\*[^*\n]*\*|^\| instead of \|.*?\n\n", re.MULTILINE | re.DOTALL)
"""Code, output of commands, and the phrases themselves where CONTRIBUTING lists them."""

QUESTION = re.compile(r"(?:What|How|Whether|Of|Who|That|Whose)\b")
"""Docstrings begin with a verb or a noun, not with a clause that leaves its subject open."""


def prose(text: str) -> str:
    """Return the text with everything quoted blanked out; line numbers stay."""
    return QUOTED.sub(lambda quote: re.sub(r"[^\n]", " ", quote[0]), text)


def banned_phrases(name: str, text: str) -> list[str]:
    lines = enumerate(text.splitlines(), start=1)
    return [f"{name}:{at}: {match[0]}" for at, line in lines for match in BANNED.finditer(line)]


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every docstring, of fields and constants too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_avoid_banned_phrases(page: Path) -> None:
    found = banned_phrases(page.name, prose(page.read_text()))
    assert not found, found


def test_source_avoids_banned_phrases() -> None:
    found = [each for path in SOURCES for each in banned_phrases(str(path.relative_to(ROOT)), path.read_text())]
    assert not found, found


def test_docstrings_of_tests_avoid_banned_phrases() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in TESTS
        for line, text in docstrings(path.read_text())
        if BANNED.search(text)
    ]
    assert not found, found


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in [*SOURCES, *TESTS]
        for line, text in docstrings(path.read_text())
        if QUESTION.match(text.lstrip())
    ]
    assert not found, found


def test_contributing_lists_the_banned_phrases() -> None:
    listed = re.search(r"- Avoid \*([^*]+)\*", (ROOT / "CONTRIBUTING.md").read_text())
    assert listed
    assert tuple(re.split(r",\s+", listed[1])) == BANNED_PHRASES


def test_quotes_do_not_count() -> None:
    assert not BANNED.search(prose("Say `nobody`.\n```\nis told\n```\n"))
    assert BANNED.search(prose("Nobody says so."))


def test_docstrings_of_fields_count() -> None:
    source = 'class Job:\n    gpus: int\n    """How many GPUs."""\n'
    assert list(docstrings(source)) == [(3, "How many GPUs.")]
    assert QUESTION.match("How many GPUs.")
    assert not QUESTION.match("However many GPUs.")
