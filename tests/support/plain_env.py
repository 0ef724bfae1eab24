"""The environment of these tests without what names a scheduler or a user's folders."""

from __future__ import annotations

import os


def plain_env() -> dict[str, str]:
    """Return the variables for a command of a new user. Its workers run jobs as themselves, also as root."""
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "WEFT_"))}
    return {**keep, "WEFT_RUN_AS": "worker"}
