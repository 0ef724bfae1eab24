"""The API for code inside a replica of a service: where to listen, when it can serve, and when it works on a batch.

It uses only the standard library, and of Weft only the device page. Outside a replica it does nothing.
"""

from __future__ import annotations

from weft.serve.batch import batch
from weft.serve.replica import host, port, ready

__all__ = ["batch", "host", "port", "ready"]
