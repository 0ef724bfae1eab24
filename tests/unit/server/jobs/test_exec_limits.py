"""A job that Linux could not start is refused when it is submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.builders import Rig, grid
from weft.access.auth.identity import Caller
from weft.access.wire.messages import JobSpec, SubmitRequest, Variable
from weft.errors import InputError
from weft.scheduling.core.state.teams import Teams
from weft.server.jobs.admission import ClusterRules
from weft.server.jobs.builder import JobBuilder
from weft.server.process.slices import at_once
from weft.views.from_state.gpu_numbers import GpuNumbers

KB = 1 << 10


def build(blobs: Path | None = None, *, dry_run: bool = False, env: Any = (), **fields: Any) -> None:
    builder = JobBuilder(ClusterRules(Rig("fifo", grid(1, 1)).state, GpuNumbers(), blobs), Teams())
    request = SubmitRequest(jobs=[JobSpec(**{"command": ["true"], **fields})], env=env, dry_run=dry_run)
    at_once(builder.build(request, 1, lambda _: [], Caller("ada", "user")))


def variable(name: str, value: str = "x") -> list[Variable]:
    return [Variable(name=name, value=value)]


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        ({"retries": 4_294_967_295}, "retries", "4,294,967,295 is out of range"),
        ({"env": variable("A=B")}, "env", "'A=B' cannot be the name of a variable"),
        ({"env": variable("")}, "env", "'' cannot be the name of a variable"),
        ({"env": variable("A", "x\0y")}, "env", r"a variable \('A'\) contains a NUL"),
        ({"env": variable("A\0B")}, "env", "contains a NUL"),
        ({"params": variable("a", "x\0y")}, "params", "contains a NUL"),
        ({"command": ["echo", "x\0y"]}, "command", "a word contains a NUL"),
        ({"chdir": "/a\0b"}, "chdir", "contains a NUL"),
        ({"command": ["echo", "x" * 128 * KB]}, "command", "a word has 128 KB"),
        ({"command": ["echo", "\u00e9" * 64 * KB]}, "command", "a word has 128 KB"),
        ({"env": variable("A", "x" * 128 * KB)}, "env", r"a variable \('A'\) has 128 KB"),
        ({"params": variable("a", "x" * 128 * KB)}, "params", "has 128 KB"),
        ({"snapshot": "../../../etc/passwd"}, "snapshot", "'../../../etc/passwd' is not the name of a snapshot"),
    ],
)
def test_what_no_node_could_start_is_refused_by_name(fields: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        build(**fields)
    assert error.value.key == key


def test_variables_of_the_whole_request_are_checked_too() -> None:
    with pytest.raises(InputError, match="cannot be the name of a variable"):
        build(env=variable("A=B"))


def test_the_largest_values_that_linux_takes_are_accepted() -> None:
    build(command=["echo", "x" * (128 * KB - 1)], env=variable("A", "x" * (128 * KB - 3)), retries=1_000_000)


def test_a_snapshot_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no snapshot aaaa"):
        build(tmp_path, snapshot="a" * 64)
    build(tmp_path, snapshot="a" * 64, dry_run=True)  # it is uploaded later
    (tmp_path / ("a" * 64)).touch()
    build(tmp_path, snapshot="a" * 64)
