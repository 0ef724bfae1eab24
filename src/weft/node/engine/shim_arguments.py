"""The arguments of a shim, derived from a launch spec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from weft.inputs.quantities import parse_signal
from weft.node.engine.environment import work_folder
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.leader_command import leader_command
from weft.node.engine.output.file_names import output_arguments
from weft.node.engine.rendezvous import Gang, hostfile_text
from weft.node.engine.shim import run_files
from weft.node.engine.users.accounts import python_for


def shim_arguments(
    spec: LaunchSpec, env: Mapping[str, str], gang: Gang, jobs_dir: str, runtime_dir: str
) -> dict[str, Any]:
    """Return what a shim needs to know of a run."""
    run_dir = run_files.run_dir(jobs_dir, spec.job, spec.run)
    return {
        "container": _container(spec, env, gang, jobs_dir, runtime_dir),
        "job": spec.job,
        "run": spec.run,
        "argv": leader_command(spec, gang, python_for(spec.account), run_dir),
        "env": env,
        "hostfile": hostfile_text(gang) if "WEFT_HOSTFILE" in env else "",
        "dir": run_dir,
        "chdir": spec.chdir if spec.account is None else spec.chdir or work_folder(spec, run_dir),
        "account": spec.account.to_spec() if spec.account is not None else None,
        "umask": spec.umask,
        "time_limit_s": spec.time_limit_s,
        "grace_s": spec.grace_s,
        "requeue": bool(spec.requeue),
        "preempt_grace_s": spec.preempt_grace_s,
        "signal": parse_signal(spec.signal) if spec.signal else None,
        "log_cap_bytes": spec.log_cap_bytes,
        "stdin": spec.stdin,
        **output_arguments(spec, gang.this_member.node, len(gang.members)),
        "params": dict(spec.params),
        "lease": spec.lease,
        "ram_mb": spec.ram_mb,
        "cpus": spec.cpu_limit,
        "record": spec.record,
        "terminal": bool(spec.terminal and not gang.rank),
    }


def _container(
    spec: LaunchSpec, env: Mapping[str, str], gang: Gang, jobs_dir: str, runtime_dir: str
) -> dict[str, Any] | None:
    if not spec.image:  # most nodes never import the runtimes of containers
        return None
    from weft.node.engine.container.arguments import container_arguments

    return container_arguments(spec, env, gang, jobs_dir, runtime_dir, os.environ)
