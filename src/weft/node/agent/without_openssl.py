"""Keeps OpenSSL out of a worker: it costs 2 MB of each node's memory, and nothing in a worker uses it.

gRPC contains TLS. asyncio and hashlib import OpenSSL where they can, and do without it where they cannot.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_MODULES: Final = ("ssl", "_hashlib")


def avoid_openssl() -> None:
    """Let imports of OpenSSL fail in this process, unless it has been imported."""
    found: dict[str, Any] = sys.modules
    if not any(name in found for name in ("_ssl", *_MODULES)):
        found.update(dict.fromkeys(_MODULES))
