"""Deliver messages: `python -m weft.access.notify` reads one per line, and answers each with one line.

It reads the targets file itself, so that no secret passes through the scheduler.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from weft.access.notify.channels import command, desktop, email, webhook
from weft.access.notify.delivery import NotDelivered
from weft.access.notify.targets import TargetsCache
from weft.errors import WeftError

TIMEOUT_S: Final = 15.0
"""The longest time that one attempt waits for a receiver."""
SENDERS: Final = {"webhook": webhook.send, "email": email.send, "command": command.send, "desktop": desktop.send}


def deliver(targets: TargetsCache, request: dict[str, Any]) -> dict[str, Any]:
    """Try once. Return how it went."""
    try:
        target = targets.read().find(request["target"])
        SENDERS[target.kind](target, request["message"], TIMEOUT_S)
    except NotDelivered as error:
        return {"ok": False, "why": str(error), "permanent": error.permanent, "retry_s": error.retry_s}
    except WeftError as error:  # a target or file that is gone may come back
        return {"ok": False, "why": str(error).replace("\n", ";"), "permanent": False, "retry_s": 0.0}
    except Exception as error:
        return {"ok": False, "why": f"{type(error).__name__}: {error}", "permanent": False, "retry_s": 0.0}
    return {"ok": True, "why": "", "permanent": False, "retry_s": 0.0}


def main() -> int:
    targets = TargetsCache()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(deliver(targets, json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
