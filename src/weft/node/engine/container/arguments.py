"""The arguments of a container's supervisor, derived from the launch spec of its run. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from weft.inputs.mounts import Mount, parse_mount
from weft.node.engine.container.detection import host_environment
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.rendezvous import RANKS_SCRIPT, Gang, node_command
from weft.node.engine.weaves import FOLDER as WEAVES
from weft.train import hooks
from weft.train.device_page.process import PAGES_VARIABLE

PACKAGE: Final = str(Path(hooks.__file__).parents[2])
"""The folder of Weft itself: `--stages auto` loads its hooks from there."""
PYTHON_IN_IMAGE: Final = "python3"


def container_arguments(
    spec: LaunchSpec, env: Mapping[str, str], gang: Gang, jobs_dir: str, runtime_dir: str, host: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the container of a run; None: it has none. `host` is the environment of this process."""
    if not spec.image:
        return None
    return {
        "image": spec.image,
        "runtime": spec.runtime,
        "command": node_command(spec.argv, gang, spec.per_gpu, PYTHON_IN_IMAGE),
        "mounts": [list(parse_mount(text)) for text in spec.mounts],
        "own_mounts": [list(each) for each in own_mounts(spec, env, jobs_dir)],
        "gpus": [str(gpu) for gpu in spec.gpu_uuids or spec.gpus],
        "has_uuids": bool(spec.gpu_uuids),
        "terminal": bool(spec.terminal) and not gang.rank,
        "home": jobs_dir,
        "cache": f"{runtime_dir}/container-runtime.json",
        "host_env": host_environment(host),
    }


def own_mounts(spec: LaunchSpec, env: Mapping[str, str], jobs_dir: str) -> list[Mount]:
    """Return what every run needs of its node, at the same paths: the files of its job, and what its variables name."""
    paths = [f"{jobs_dir}/{spec.job}"]
    if spec.socket:
        paths.append(os.path.dirname(spec.socket))  # not the socket itself: a new scheduler makes a new one
    if "WEFT_WEAVE_FILE" in env:
        paths.append(f"{os.path.dirname(jobs_dir)}/{WEAVES}")
    if pipes := env.get("CUDA_MPS_PIPE_DIRECTORY"):
        paths.append(pipes)
    if pages := env.get(PAGES_VARIABLE):
        paths.append(os.path.dirname(pages.partition(":")[0]))
    found = [Mount(path, path) for path in paths]
    if spec.per_gpu:
        found.append(Mount(RANKS_SCRIPT, RANKS_SCRIPT, read_only=True))
    if "WEFT_STAGES" in env:
        found.append(Mount(PACKAGE, PACKAGE, read_only=True))
    return found
