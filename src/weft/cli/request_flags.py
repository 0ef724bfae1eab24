"""Flags of HTTP requests: headers and bodies."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import InputError


def parse_headers(given: Sequence[str]) -> list[tuple[str, str]]:
    """Parse headers of the form `Name: value`."""
    found = []
    for header in given:
        name, colon, value = header.partition(":")
        if not colon or not name or not header.isprintable() or not header.isascii() or " " in name:
            raise InputError(f"--header: {header[:80]!r}", hint="a name, a colon and a value, such as 'X-Team: a'")
        found.append((name, value.strip()))
    return found


def read_body(given: str | None, max_bytes: int) -> bytes:
    """Return the body of --data: the text itself, or the content of @FILE."""
    if given is None or not given.startswith("@"):
        return (given or "").encode()
    from weft.inputs.files import read_text

    return read_text(given[1:], max_bytes=max_bytes).encode()
