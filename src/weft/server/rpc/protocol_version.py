"""The protocol versions that the server accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.access.wire.protocol import PROTOCOL
from weft.errors import Refused
from weft.inputs.quantities import parse_whole_or_none
from weft.version import VERSION

MIN_PROTOCOL: Final = 2
"""The oldest protocol that the server accepts."""


def check_protocol(metadata: Mapping[str, str]) -> None:
    """Raise for a peer of another protocol, and name the side to update."""
    text, theirs = metadata.get("weft-protocol", ""), metadata.get("weft-version", "")[:40]
    known = parse_whole_or_none(text, 0, 99_999_999) or 0
    if MIN_PROTOCOL <= known <= PROTOCOL:
        return
    peer, spoken = f"Weft {theirs}" if theirs else "the caller", f"protocol {known}" if known else "no protocol"
    hint = (
        "update the scheduler, or call with a Weft as old as it is"
        if known > PROTOCOL
        else f"update the caller: it must send weft-protocol {PROTOCOL} in its metadata"
    )
    raise Refused(f"{peer} speaks {spoken}, the scheduler (Weft {VERSION}) protocol {PROTOCOL}\n  {hint}")
