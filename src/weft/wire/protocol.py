"""The version of the wire protocol."""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = 2
"""The version of all messages. Raise it when an older client or agent would no longer be understood."""
