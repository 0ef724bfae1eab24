"""Commands next to a run in a container: they run in the container, with its variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import Refused
from weft.node.engine.container.detection import runtime_named
from weft.node.engine.container.port import ContainerError
from weft.node.engine.container.record import read_record
from weft.node.engine.container.supervisor import container_spec


def entry_of_run(
    folder: str, spec: Mapping[str, Any], command: list[str], *, terminal: bool
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs another one in the container of a run, and its environment."""
    known = read_record(folder)
    if known is None or not known.pid:
        raise Refused("the container of the job has not started yet\n  weft logs shows whether its image is fetched")
    runtime = runtime_named(known.runtime)
    try:
        described = container_spec(folder, spec, runtime)
    except ContainerError as error:
        raise Refused(f"the container cannot be entered: {error.detail}") from None
    argv = [known.program, *runtime.enter(described, command, terminal=terminal)]
    return argv, runtime.client_env(described)
