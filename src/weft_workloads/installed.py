"""The packages of the extra `weft[workloads]`, of which some may not be installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from typing import Final

NEEDED: Final = {"torch": "torch", "numpy": "numpy", "PIL": "pillow", "gymnasium": "gymnasium"}


def missing(model: str, modules: Iterable[str] = NEEDED) -> str:
    """Return which packages this Python lacks, in words, and how to install them in a second line; empty: none."""
    found = [NEEDED[module] for module in modules if importlib.util.find_spec(module) is None]
    if not found:
        return ""
    return (
        f"{model} needs {', '.join(found)}, which {sys.executable} does not have\n"
        "install them on the node: pip install 'weft[workloads]'"
    )
