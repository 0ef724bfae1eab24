"""The address of this replica, and the word that it can serve."""

from __future__ import annotations

import os

DEFAULT_PORT = 8000
LOOPBACK = "127.0.0.1"


def port(default: int = DEFAULT_PORT) -> int:
    """Return the port at which this replica listens; outside a replica, `default`."""
    return int(os.environ.get("WEFT_PORT") or default)


def host(default: str = LOOPBACK) -> str:
    """Return the address at which this replica listens; outside a replica, `default`."""
    return os.environ.get("WEFT_HOST") or default


def ready() -> None:
    """Say that this replica can serve. A program whose probe path has no answer needs this; it listens already."""
    path = os.environ.get("WEFT_READY_FILE")
    if path:
        with open(path, "wb"):
            pass
