"""Import of gRPC without its log lines: Weft reports failures itself."""

from __future__ import annotations

import os
import sys
from typing import Final

VERBOSITY: Final = "GRPC_VERBOSITY"


def load_grpc() -> None:
    """Import gRPC, which reads the variable while it loads. Remove it afterwards: jobs inherit the environment."""
    if "grpc" in sys.modules:  # another thread may be starting a process, which must not see the environment change
        return
    is_set = VERBOSITY in os.environ
    if not is_set:
        os.environ[VERBOSITY] = "NONE"
    try:
        import grpc  # noqa: F401
    finally:
        if not is_set:
            del os.environ[VERBOSITY]
