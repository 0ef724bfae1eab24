"""A test of the source itself: size, names, purity, links, and that every policy is documented and tested."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "weft"
WORKLOADS = ROOT / "src" / "weft_workloads"
SOURCES = sorted([*SOURCE.rglob("*.py"), *WORKLOADS.rglob("*.py")])
DOCS = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.exists()]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
POLICIES = sorted(PYPROJECT["project"]["entry-points"]["weft.policies"])

FILE_LINES = 400
LINE_CHARS = 120
FUNCTION_LINES = 60
MAX_MODULES = 20
"""In a folder, `policies`, `placements` and `commands` excepted."""
POLICY_LINES = 120
PURE = {"model", "scheduling", "views"}
IMPURE = {"asyncio", "grpc", "logging", "os", "random", "socket", "sqlite3", "subprocess", "threading", "time"}
BANNED_CLASS = re.compile(r"Manager|Helper|Utils?(?![a-z])|^_?Base(?![a-z])|(Data|Info)$")
BANNED_FILES = {"utils.py", "util.py", "helpers.py", "helper.py"}
# Written in pieces, so that this file does not break its own rule.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|NotImplemented" r"Error)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:root|home|work)/")
REGISTRY_HOST = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|yarnpkg\.com|anaconda\.org|crates\.io")
PRINTING_PROGRAMS = {"src/weft/server/__main__.py", "src/weft/train/demo.py", "src/weft/train/standin.py"}
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
UNTRACKED = {".git", ".venv", "build", "dist", "__pycache__"}


Node = TypeVar("Node", bound=ast.AST)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    """`scheduling` for scheduling/core/ports.py, `text` for text.py, `weft_workloads` for all of that package."""
    if path.is_relative_to(WORKLOADS):
        return WORKLOADS.name
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), filename=str(path))


def imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import, those inside functions included."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def project_files() -> list[Path]:
    """Return all files that are or would be committed; without git, all that no tool has made."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return list(walk())
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def walk() -> Iterator[Path]:
    for folder, subfolders, files in os.walk(ROOT):
        hidden = {name for name in subfolders if name.endswith((".egg-info", "_cache")) or name == ".hypothesis"}
        subfolders[:] = sorted(set(subfolders) - UNTRACKED - hidden)
        yield from (Path(folder, file) for file in files)


def is_generated(path: Path) -> bool:
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def offences(check: Callable[[Path], Iterator[str]]) -> str:
    """Return the findings of a check in all files; one test per rule, so that each file is parsed once."""
    return "\n".join(f"{name_of(path)}{said}" for path in SOURCES for said in check(path))


def nodes(path: Path, kind: type[Node]) -> Iterator[Node]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, kind))


def test_files_and_functions_are_short() -> None:
    def check(path: Path) -> Iterator[str]:
        if is_generated(path):
            return
        if len(text(path).splitlines()) >= FILE_LINES:
            yield f": split it, it has {FILE_LINES} lines or more"
        functions: Iterator[ast.FunctionDef | ast.AsyncFunctionDef] = chain(
            nodes(path, ast.FunctionDef), nodes(path, ast.AsyncFunctionDef)
        )
        for node in functions:
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines >= FUNCTION_LINES:
                yield f":{node.lineno}: {node.name} is {lines} lines long"

    assert not offences(check)


def test_folders_have_few_modules() -> None:
    modules = [path for path in [*SOURCES, *(ROOT / "tests").rglob("*.py")] if not path.name.startswith("__")]
    counts = Counter(path.parent for path in modules if path.parent.name not in ("policies", "placements", "commands"))
    assert {name_of(folder): count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_folders_of_modules_are_packages_in_the_repository() -> None:
    files = set(project_files())
    folders = {path.parent for path in files & set(SOURCES) if path.name != "sitecustomize.py"}
    assert sorted(name_of(folder) for folder in folders if folder / "__init__.py" not in files) == []


def test_a_policy_is_a_page() -> None:
    def check(path: Path) -> Iterator[str]:
        lines = len(text(path).splitlines())
        if path.parent.name == "policies" and lines > POLICY_LINES:
            yield f" has {lines} lines: what it remembers goes into policy_state/"

    assert not offences(check)


def test_names_say_something() -> None:
    def check(path: Path) -> Iterator[str]:
        if path.name in BANNED_FILES:
            yield ": name the file for what it does"
        for node in nodes(path, ast.ClassDef):
            if BANNED_CLASS.search(node.name):
                yield f":{node.lineno}: {node.name} says too little"

    assert not offences(check)


def test_nothing_is_left_unfinished() -> None:
    def check(path: Path) -> Iterator[str]:
        for number, line in enumerate(text(path).splitlines(), start=1):
            if UNFINISHED.search(line):
                yield f":{number}: {line.strip()}"

    assert not offences(check)


def test_deciding_code_is_pure() -> None:
    def check(path: Path) -> Iterator[str]:
        if room_of(path) in PURE:
            for line, package in imports(tree(path)):
                if package in IMPURE:
                    yield f":{line}: {room_of(path)} may not import {package}"

    assert not offences(check)


def test_modules_say_what_they_are_for() -> None:
    def check(path: Path) -> Iterator[str]:
        if tree(path).body and not is_generated(path) and not ast.get_docstring(tree(path)):
            yield " has no docstring"

    assert not offences(check)


def test_only_commands_and_workloads_print() -> None:
    def check(path: Path) -> Iterator[str]:
        if room_of(path) in ("cli", WORKLOADS.name) or name_of(path) in PRINTING_PROGRAMS:
            return
        for node in nodes(path, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f":{node.lineno}: print belongs into weft.cli"

    assert not offences(check)


def test_no_file_names_a_machine_or_a_registry() -> None:
    for path in project_files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            where = f"{name_of(path)}:{number}: {line.strip()[:120]}"
            assert not MACHINE_PATH.search(line), f"a path of one machine in {where}"
            assert not REGISTRY_HOST.search(line), f"a package registry in {where}"


def test_lines_of_pages_are_short() -> None:
    """Tables and code keep their lines."""
    pages = [path for path in project_files() if path.suffix == ".md"]
    long = [
        f"{name_of(page)}: {line}"
        for page in pages
        for line in FENCED.sub("", page.read_text()).splitlines()
        if len(line) > LINE_CHARS and not line.lstrip().startswith("|")
    ]
    assert not long, long


@pytest.mark.parametrize("page", DOCS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text()):
        target = (match[1] or match[2]).partition("#")[0]
        if target and not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}, which is not there"


def test_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"(?:^|`|\$ |&& )make ([a-z]+)", readme, re.MULTILINE))
    assert named, "the README should say how to run Weft with make"
    assert named <= targets, f"the README names {sorted(named - targets)}, which the Makefile lacks"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_documented(policy: str) -> None:
    page = ROOT / "docs" / "reference" / "policies.md"
    entry = re.compile(rf"^(?:#+ |\| *)[*`]*{re.escape(policy)}(?![\w-])", re.MULTILINE)
    assert page.exists(), f"{name_of(page)} is missing"
    assert entry.search(page.read_text()), f"{name_of(page)} needs a heading or a table row for `{policy}`"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_a_test(policy: str) -> None:
    named = re.compile(rf"(?<![\w-]){re.escape(policy)}(?![\w-])")
    tests = sorted((ROOT / "tests" / "sim").rglob("test_*.py"))
    assert any(named.search(path.read_text()) for path in tests), f"no test in tests/sim names `{policy}`"
