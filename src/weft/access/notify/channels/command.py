"""Run a program with the message on its standard input. Its arguments are fixed: jobs cannot add any."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Final

from weft.access.notify.delivery import NotDelivered
from weft.access.notify.targets import Target

PASSED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY")
"""Variables of the scheduler that the program gets."""
MAX_ERROR_CHARS: Final = 200


def send(target: Target, message: dict[str, Any], timeout_s: float) -> None:
    named = {"TARGET": target.name, "EVENT": message["event"], "TEXT": message["message"], "ID": message["id"]}
    run_program(target.command, json.dumps(message).encode(), named, timeout_s)


def run_program(command: tuple[str, ...], given: bytes, named: dict[str, str], timeout_s: float) -> None:
    env = {name: os.environ[name] for name in PASSED if name in os.environ}
    env |= {f"WEFT_NOTIFY_{name}": value for name, value in named.items()}
    try:
        done = subprocess.run(
            command, input=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, cwd="/",
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotDelivered(f"{command[0]} took longer than {timeout_s:.0f} s") from None
    except OSError as error:
        raise NotDelivered(f"cannot run {command[0]}: {error.strerror}", permanent=True) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-MAX_ERROR_CHARS:]
        raise NotDelivered(f"{command[0]} ended with code {done.returncode}" + (f": {said}" if said else ""))
