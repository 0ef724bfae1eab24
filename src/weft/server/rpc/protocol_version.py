"""Which peers can be understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.errors import Refused
from weft.inputs.quantities import parse_whole_or_none
from weft.version import VERSION
from weft.wire.protocol import PROTOCOL

OLDEST: Final = 2
"""The oldest protocol that is understood."""


def check_protocol(metadata: Mapping[str, str]) -> None:
    """A peer that could not be understood is told so, and which of the two is older."""
    text, theirs = metadata.get("weft-protocol", ""), metadata.get("weft-version", "")[:40]
    known = parse_whole_or_none(text, 0, 99_999_999) or 0
    if OLDEST <= known <= PROTOCOL:
        return
    who, said = f"Weft {theirs}" if theirs else "what calls", f"protocol {known}" if known else "no protocol"
    hint = (
        "update the scheduler, or call with a Weft as old as it is"
        if known > PROTOCOL
        else f"update what calls: it must send weft-protocol {PROTOCOL} in its metadata"
    )
    raise Refused(f"{who} speaks {said}, the scheduler (Weft {VERSION}) protocol {PROTOCOL}\n  {hint}")
