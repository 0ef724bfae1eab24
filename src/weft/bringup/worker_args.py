"""A node of a cluster, as the words that start a worker for it."""

from __future__ import annotations

from weft.engines.process.gpu.this_machine import NO_GPUS
from weft.errors import InputError
from weft.model import Node


def worker_words(node: Node) -> list[str]:
    """What is said of it; GPUs are declared, and need not be there."""
    words = ["--id", node.id, "--pretend", "--cpus", str(node.cpus), "--mem", str(node.ram_mb)]
    if node.switch:
        words += ["--switch", node.switch]
    for name, value in node.labels:
        words += ["--labels", _plain(f"{name}={value}", "label")]
    if not node.gpus:
        return [*words, "--gpus", NO_GPUS]
    words += ["--gpus", ",".join(map(str, range(len(node.gpus))))]
    if any(gpu.model for gpu in node.gpus):
        words += ["--models", ",".join(_plain(gpu.model, "model") for gpu in node.gpus)]
    return [*words, "--memories", ",".join(str(gpu.memory_mb) for gpu in node.gpus)]


def _plain(text: str, what: str) -> str:
    if "," in text:
        raise InputError(f"a {what} with a comma: {text[:80]!r}", hint="a worker is told them in a list with commas")
    return text
