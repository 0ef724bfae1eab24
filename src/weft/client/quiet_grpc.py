"""Imports gRPC without its own log lines: Weft reports failures itself."""

from __future__ import annotations

import os
from typing import Final

VERBOSITY: Final = "GRPC_VERBOSITY"


def load_grpc() -> None:
    """Import gRPC. It reads the variable while it loads; jobs inherit variables of this process, so remove it again."""
    is_set = VERBOSITY in os.environ
    if not is_set:
        os.environ[VERBOSITY] = "NONE"
    try:
        import grpc  # noqa: F401
    finally:
        if not is_set:
            del os.environ[VERBOSITY]
