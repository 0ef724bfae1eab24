"""The reference names every command, every flag and every field of JSON that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import until
from support.weft_cli import Weft
from weft.cli.main import COMMANDS, build_parser, list_flags
from weft.views.answers.base import View
from weft.views.answers.jobs import JobDetailView, QueueView
from weft.views.answers.nodes import GpuView, NodeView

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"
SIMULATING = {"sim", "compare", "figures", "policies", "trace", "testbed", "study", "scalers"}
COMMON = {"-h", "--help", "--json", "--color"}
ELSEWHERE = {"schema", "fact"}


def page(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - SIMULATING))
def test_every_command_and_flag_is_in_the_reference(command: str) -> None:
    text = page("cli.md")
    assert all(f"`{word}`" in text for word in (command, *COMMANDS[command].aliases))
    missing = [flag for flag in list_flags(build_parser(command)) if flag not in COMMON and not _names(text, flag)]
    assert not missing, f"docs/reference/cli.md says nothing of {missing} of weft {command}"


def test_every_flag_of_the_testbed_is_on_its_page() -> None:
    (actions,) = [each for each in build_parser("testbed")._actions if isinstance(each.choices, dict)]
    for parser in actions.choices.values():  # type: ignore[union-attr]
        missing = [flag for flag in list_flags(parser) if flag not in COMMON and not _names(page("testbed.md"), flag)]
        assert not missing


def _names(text: str, flag: str) -> bool:
    return re.search(rf"`{re.escape(flag)}[` =\[]", text) is not None


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            if key not in ("params", "metrics", "versions", "refused", "paused_for"):
                yield from keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each)


def test_every_field_of_json_is_in_the_reference(weft: Weft) -> None:
    bar = r"printf '\r 25%%|##      | 25/100 [00:10<00:30,  2.5it/s]'; sleep 60"
    first, second = weft.submit("--gpus", "2", "--", "sh", "-c", bar), weft.submit("--", "true")
    until(lambda: weft.show(first)["progress"])
    calls = [
        ["submit", "--array", "0-1", "--hold", "--", "true"], ["queue", "-a"], ["why", second], ["show", first],
        ["drain"], ["gpus"], ["undrain"], ["nodes"], ["doctor"], ["pause"], ["cancel", second], ["history"],
        ["version"], ["wait", second],
    ]  # fmt: skip
    found = [weft.json(*words, code=143 if words[0] == "wait" else 0) for words in calls]
    assert sorted(set(keys(found)) - set(re.findall(r"`(\w+)`", page("json.md"))) - ELSEWHERE) == []


@pytest.mark.parametrize("view", [JobDetailView, QueueView, NodeView, GpuView])
def test_every_field_of_a_view_is_in_the_reference(view: type[View]) -> None:
    """The calls above print no fields of a cluster."""
    names = {view.KEYS.get(name, name) for name in view.DEFAULTS}
    assert sorted(names - set(re.findall(r"`(\w+)`", page("json.md")))) == []
