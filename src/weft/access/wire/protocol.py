"""The version of the wire protocol."""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = 2
"""The version of all messages. Increase it when older clients or agents would no longer be understood."""
