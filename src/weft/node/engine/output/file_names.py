"""The files to which a user sends the output of a run."""

from __future__ import annotations

import os
from typing import Any

from weft.inputs.output_names import expand_output_name, has_placeholder
from weft.model import NodeId
from weft.node.engine.launch_spec import LaunchSpec


def output_arguments(spec: LaunchSpec, node: NodeId, gang_size: int) -> dict[str, Any]:
    """Return what a shim needs to know of the user's own files; empty names: there are none.

    The first run empties them. The nodes of a gang, and the tasks of an array, that write to one file only append: none
    knows which is first.
    """
    values = _values(spec, node)
    arguments: dict[str, Any] = {}
    for key, name in (("output", spec.output), ("error", spec.error)):
        shared = gang_size > 1 and not has_placeholder(name, "N")
        if spec.array_index is not None:
            shared = shared or not (has_placeholder(name, "a") or has_placeholder(name, "j"))
        arguments[key] = expand_output_name(name, values) if name else ""
        arguments[f"{key}_append"] = spec.run > 1 or shared
    return arguments


def _values(spec: LaunchSpec, node: NodeId) -> dict[str, str]:
    return {
        "j": spec.job,
        "A": spec.job.partition("_")[0],
        "a": str(spec.array_index or 0),
        "x": spec.name or os.path.basename(spec.argv[0]),
        "u": spec.user,
        "N": node,
    }
