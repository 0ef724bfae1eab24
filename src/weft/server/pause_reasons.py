"""Why the server itself pauses the scheduler or cordons a node."""

from __future__ import annotations

from typing import Final

from weft.model.status import Reason

POLICY_FAILED: Final = Reason.POLICY_FAILED
CLOSING: Final = Reason.CLOSING
"""The server is shutting down and kills what runs. The next server resumes."""
DISK_FLOOR: Final = "DiskFloor"
FILE_LIMIT: Final = "FileLimit"
