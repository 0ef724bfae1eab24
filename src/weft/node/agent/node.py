"""This machine as the agent describes it to the scheduler."""

from __future__ import annotations

from weft.node.agent.runtime import with_gpus_in_use
from weft.node.agent.state_dir import AgentDir
from weft.node.engine.gpu.discovery import Machine


def describe_machine(machine: Machine, folder: AgentDir) -> Machine:
    """Return the machine with its previous GPUs, if they have changed while runs use them."""
    return with_gpus_in_use(machine, folder.state, in_use=bool(folder.unfinished(folder.unconfirmed())))
