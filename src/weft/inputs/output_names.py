"""Names of output files with Slurm's placeholders, such as `logs/%x-%j.out`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from weft.errors import InputError

PLACEHOLDERS: Final = {
    "j": "the job's id",
    "A": "the id of its array",
    "a": "its index in the array",
    "x": "its name",
    "u": "its user",
    "N": "its node",
    "%": "%",
}
MAX_CHARS: Final = 4000
MAX_PAD: Final = 10
_PLACEHOLDER: Final = re.compile(r"%([0-9]*)(.?)", re.DOTALL)
_ID: Final = frozenset("jAa")


def check_output_name(text: str) -> str:
    """Return the name of an output file as it is; raise if it cannot be one."""
    if not text or text.endswith("/"):
        raise InputError(f"{text[:80]!r} does not name a file", hint="such as logs/%x-%j.out")
    if "\0" in text or len(text) > MAX_CHARS:
        raise InputError(f"expected a path of at most {MAX_CHARS:,} characters, without NUL")
    for found in _PLACEHOLDER.finditer(text):
        if found[2] not in PLACEHOLDERS:
            known = ", ".join(f"%{letter} ({what})" for letter, what in PLACEHOLDERS.items() if letter != "%")
            raise InputError(f"{found[0]!r} is not known in {text[:80]!r}", hint=f"{known}; %% is a percent sign")
        if found[1] and int(found[1][:9]) > MAX_PAD:
            raise InputError(f"{found[0][:20]!r} asks for more than {MAX_PAD} digits", hint="such as %4j")
    return text


def expand_output_name(text: str, values: Mapping[str, str]) -> str:
    """Return the name with each placeholder replaced. A slash in a value becomes an underscore."""

    def value(found: re.Match[str]) -> str:
        letter = found[2]
        if letter == "%":
            return "%"
        filled = values.get(letter, found[0]).replace("/", "_")
        return filled.zfill(min(int(found[1][:9] or 0), MAX_PAD)) if letter in _ID and filled.isdecimal() else filled

    return _PLACEHOLDER.sub(value, text)


def has_placeholder(text: str, letter: str) -> bool:
    """Return whether the name contains this placeholder."""
    return any(found[2] == letter for found in _PLACEHOLDER.finditer(text))
