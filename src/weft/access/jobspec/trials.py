"""The jobs of a sweep: one for each row of parameters, from one command and one set of flags."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from weft.access.jobspec import readers
from weft.access.jobspec.fields import spec_of
from weft.access.jobspec.job_names import default_name
from weft.access.jobspec.placeholders import fill_in_name, fill_in_trial, names_in
from weft.access.jobspec.readers import Given
from weft.access.wire.messages import JobSpec
from weft.errors import InputError, UnknownName

DEFAULT_NAME: Final = "{sweep}-{index}"
_SCRIPT: Final = re.compile(r"(.+)\.(?:py|sh|bash|R|jl)")
_UNFIT: Final = re.compile(r"[/\\'\"`$\s]+")
"""Characters of a value that the name of a job may not have."""


class SweepPlan(NamedTuple):
    sweep: str
    command: Sequence[str]
    rows: Sequence[Mapping[str, str]]
    given: Mapping[str, Given]
    """The keys that all trials share, as flags and files have them."""
    name: str = DEFAULT_NAME
    early_stop: str = ""
    """The rule of early stopping; empty: none."""
    allows_unused: bool = False
    """True: the program may read parameters from its environment, as WEFT_PARAM_NAME."""


def trial_specs(plan: SweepPlan) -> list[JobSpec]:
    """Return the job of each trial. Raise if the command and the parameters do not fit each other."""
    _check_names(plan)
    shared = {key: value for key, value in plan.given.items() if key not in ("name", "params", "command")}
    fixed = {each.name: each.value for each in readers.params(plan.given["params"])} if "params" in plan.given else {}
    rule: dict[str, Given] = {"early_stop": plan.early_stop} if plan.early_stop else {}
    template = spec_of({"group": plan.sweep, **shared, **rule, "sweep": plan.sweep})
    return [_spec(plan, template, {**fixed, **row}, index) for index, row in enumerate(plan.rows)]


def _spec(plan: SweepPlan, template: JobSpec, params: Mapping[str, str], index: int) -> JobSpec:
    literals = {"index": str(index), "sweep": plan.sweep}
    spec = JobSpec()
    spec.CopyFrom(template)
    values = {name: _UNFIT.sub("-", value) for name, value in params.items()} | literals
    try:
        spec.name = fill_in_name(plan.name, values)
        spec.params.extend(readers.params(dict(params)))
        spec.command.extend(readers.command(fill_in_trial(plan.command, params, literals)))
    except InputError as error:
        raise error.at(key="command") from None
    return spec


def _check_names(plan: SweepPlan) -> None:
    """Raise if a placeholder has no parameter, or a parameter no placeholder."""
    if not plan.rows:
        raise InputError("the sweep has no parameters", hint="give some: --grid lr=0.1,0.01 or --from FILE")
    given = [each.name for each in readers.params(plan.given["params"])] if "params" in plan.given else []
    params = plan.rows[0].keys()
    if both := [name for name in given if name in params]:
        raise InputError(f"--param {both[0]} is also a parameter of the sweep", hint="give it once")
    used = names_in([*plan.command, plan.name])
    known = [*params, *given, "index", "sweep"]
    for name in sorted(used - set(known)):
        shown = "{" + name[:80] + "}"
        hint = f"parameters: {', '.join(known)}; write {{{{ for a brace that stands for itself"
        raise InputError(f"{shown} in the command or the name is no parameter of the sweep", hint=hint)
    if (unused := [name for name in params if name not in used]) and not plan.allows_unused:
        raise InputError(
            f"the parameter {unused[0]!r} is not used: the command has no {{{unused[0]}}}",
            hint="add it; or, if the program reads WEFT_PARAM_ variables, give --allow-unused",
        )


def check_sweep_name(name: str) -> str:
    return readers.sweep(name)


def new_sweep_name(command: Sequence[str], known: Sequence[str]) -> str:
    """Return a name that no known sweep has: that of the script or program, and a number."""
    scripts = (match[1] for word in command if (match := _SCRIPT.fullmatch(os.path.basename(word))))
    stem = next(scripts, "") or default_name(command)
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip(".-")[:60] or "sweep"
    numbers = [int(name[len(stem) + 1 :]) for name in known if re.fullmatch(re.escape(stem) + r"-[0-9]{1,9}", name)]
    return f"{stem}-{max(numbers, default=0) + 1}"


def require_sweep(name: str, known: Sequence[str]) -> str:
    """Return the sweep that a user names; without a name, the last one."""
    if not known:
        raise InputError("there is no sweep", hint="weft sweep --grid lr=0.1,0.01 -- CMD {lr} submits one")
    if name and name not in known:
        raise UnknownName("sweep", name[:80], known)
    return name or known[-1]
