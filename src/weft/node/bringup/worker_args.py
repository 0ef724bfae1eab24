"""The command-line arguments of a worker that pretends to be a given node."""

from __future__ import annotations

from weft.errors import InputError
from weft.model import Node
from weft.node.engine.gpu.this_machine import NO_GPUS


def worker_args(node: Node) -> list[str]:
    """Return the arguments that describe a node. Its GPUs are declared and need not exist."""
    words = ["--id", node.id, "--pretend", "--cpus", str(node.cpus), "--mem", str(node.ram_mb)]
    if node.switch:
        words += ["--switch", node.switch]
    for name, value in node.labels:
        words += ["--labels", _reject_comma(f"{name}={value}", "label")]
    if not node.gpus:
        return [*words, "--gpus", NO_GPUS]
    words += ["--gpus", ",".join(map(str, range(len(node.gpus))))]
    if any(gpu.model for gpu in node.gpus):
        words += ["--models", ",".join(_reject_comma(gpu.model, "model") for gpu in node.gpus)]
    return [*words, "--memories", ",".join(str(gpu.memory_mb) for gpu in node.gpus)]


def _reject_comma(text: str, what: str) -> str:
    """Return the text; raise if it has a comma, which separates values in the arguments."""
    if "," in text:
        raise InputError(f"{what} {text[:80]!r} has a comma", hint=f"remove the comma from the {what}")
    return text
