"""Terminals of a test's own, read to their end."""

from __future__ import annotations

import os


def read_all(ours: int) -> bytes:
    """Return everything that is shown until the other end is closed."""
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # the other end is closed
            return shown
        if not chunk:
            return shown
        shown += chunk
