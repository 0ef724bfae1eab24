"""Which protocol is spoken."""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = 2
"""Of all that is said on a port. It rises when a client or an agent of before could no longer be understood."""
