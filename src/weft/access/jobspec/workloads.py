"""Workloads: the commands of jobs without a command, which installed packages provide for their models.

An entry point of the group `weft.workloads`, named after the model, is a function from params to a command: a list of
words, or a `WorkloadCommand`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from weft.access.wire.convert import pairs
from weft.access.wire.messages import JobSpec
from weft.errors import InputError, nearest

GROUP: Final = "weft.workloads"
SERVERS: Final = "weft.servers"
"""The group of the commands that serve models."""
HINT: Final = "add a command, such as weft submit --config FILE -- CMD, or install a package that provides the workload"


DEMO_S: Final = 30.0
"""Duration of the demo if the job declares none."""


class WorkloadCommand(NamedTuple):
    """The command of a workload."""

    words: Sequence[str]
    per_gpu: bool = False
    """Start one process for each GPU, as `--per-gpu` does."""
    missing: str = ""
    """The packages that the command needs and this machine lacks, in words; a second line says how to install them."""


def demo(duration_s: float = DEMO_S) -> list[str]:
    """Return the command of the built-in workload: `weft.train.demo`, with the Python that runs Weft on the node."""
    return ["sh", "-c", 'exec "${WEFT_PYTHON:-python3}" -m weft.train.demo --duration "$0"', f"{duration_s:g}"]


def add_command(spec: JobSpec, *, here: bool = False) -> None:
    """Set the command of a job without one to that of its workload, and its name to the model if it has none.

    `here`: the job runs on this machine. Raise InputError if the workload is not fully installed.
    """
    if not spec.command:
        params = dict(pairs(spec.params))
        found = command_for(params)
        if here and found.missing:
            what, _, remedy = found.missing.partition("\n")
            raise InputError(what, hint=remedy)
        spec.command.extend(found.words)
        spec.name = spec.name or params["model"]
        if found.per_gpu and (spec.gpus or not spec.HasField("gpus")):
            spec.per_gpu = True


def command_for(params: Mapping[str, str], group: str = GROUP) -> WorkloadCommand:
    """Return the command that is registered for `params.model`. If there is none, name the known models."""
    from weft.scheduling.plugins.registry import registered_plugins

    model = params.get("model")
    if not model:
        raise InputError("no command, and no params.model to choose a workload", hint="add a command")
    known = registered_plugins(group)
    if model not in known:
        listed = ", ".join(nearest(model, known)) if known else "none"
        raise InputError(f"no command, and no workload for the model {model[:80]!r}; registered: {listed}", hint=HINT)
    try:
        found = known[model].load()(dict(params))
    except InputError:
        raise
    except Exception as error:
        what = f"the workload {model!r} of {known[model].value} failed: {type(error).__name__}: {error}"
        raise InputError(what, hint="correct the error there, or add a command") from error
    command = found if isinstance(found, WorkloadCommand) else WorkloadCommand(found)
    words = command.words
    if not (isinstance(words, list | tuple) and words and all(isinstance(word, str) for word in words)):
        raise InputError(
            f"the workload {model!r} of {known[model].value} returned no command", hint="it must return a list of words"
        )
    return command
