"""Show a message on the desktop of the scheduler's user, with notify-send."""

from __future__ import annotations

import shutil
from typing import Any

from weft.access.notify.channels.command import run_program
from weft.access.notify.delivery import NotDelivered
from weft.access.notify.targets import Target


def send(target: Target, message: dict[str, Any], timeout_s: float) -> None:
    program = shutil.which("notify-send")
    if program is None:
        raise NotDelivered("there is no notify-send on the PATH of the scheduler", permanent=True)
    urgency = "critical" if message["event"] == "failed" else "normal"
    words = (program, "--app-name=weft", f"--urgency={urgency}", "--", "weft", message["text"])
    run_program(words, b"", {"TARGET": target.name}, timeout_s)
