"""The command of a run's leader: the user's command, in the scripts that its job asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.node.engine.container.script import script
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.rendezvous import Gang, node_command

TERMINAL_SCRIPT: Final = str(Path(__file__).with_name("shim") / "terminal.py")


def leader_command(spec: LaunchSpec, gang: Gang, python: str, run_dir: str = "") -> tuple[str, ...]:
    """Return the command for this node. Only the first node of a gang has a terminal."""
    command = script("supervisor", run_dir) if spec.image else node_command(spec.argv, gang, spec.per_gpu, python)
    return (python, "-I", "-S", TERMINAL_SCRIPT, *command) if spec.terminal and not gang.rank else command
