"""The jobs of a cell on the emulated device: their commands, profiles and variables, and the policy that runs them."""

from __future__ import annotations

import sys
from typing import Final

from weft.access.client.trace_player import Program
from weft.access.wire.convert import stage_profile
from weft.access.wire.messages import JobSpec
from weft.lab.testbed.device_servers import VARIABLE, device_options
from weft.lab.testbed.matrix import Cell, weaves, with_order
from weft.lab.testbed.scaling import scale_policy, scale_profile
from weft.scheduling.weaving.pace import FACTORS
from weft.sim.traces.trace import TraceJob
from weft.train.emulated import program, woven

PORTABLE: Final = 'exec "${WEFT_PYTHON:-python3}" -m "$0" "$@"'


def live_policy(cell: Cell) -> str:
    """Return the policy of a cell's scheduler, with its seconds scaled and the order of its weaves."""
    return with_order(cell, scale_policy(cell.policy, cell.speed, cell.interval_s))


def device_variables(cell: Cell, folder: str) -> dict[str, str]:
    """Return the variables of all jobs of a cell. Nodes of two cells have the same names, so each has its folder."""
    found = {"WEFT_DEVICE": "emulated", "WEFT_DEVICE_DIR": folder}
    if options := device_options():
        found[VARIABLE] = " ".join(options)
    if cell.contention == "muri":
        found["WEFT_DEVICE_FACTORS"] = ",".join(f"{size}={factor:.6f}" for size, factor in FACTORS.items())
    return found


def program_of(cell: Cell, *, portable: bool = False) -> Program:
    """Return the function that makes the jobs of a cell. Jobs declare their true length, as the simulator knows it.

    `portable`: start them by the name of their module, for nodes that have Weft in another place.
    """
    woven_jobs = weaves(cell.policy)

    def create(each: TraceJob, work_s: float, file: str) -> JobSpec:
        module = woven if woven_jobs and each.job.profile is not None else program
        start = ["sh", "-c", PORTABLE, module.__name__] if portable else [sys.executable, "-I", "-S", module.__file__]
        words = [*map(str, start), f"{work_s:.6f}", file]
        spec = JobSpec(declared_s=work_s)
        if each.job.profile is not None:
            profile = scale_profile(each.job.profile, cell.speed)
            spec.profile.CopyFrom(stage_profile(profile))
            if woven_jobs:
                stages = (profile.iteration_s, profile.data_s, profile.gpu_s, profile.network_s)
                words += [*map(repr, stages), cell.order]
        spec.command.extend(words)
        return spec

    return create
