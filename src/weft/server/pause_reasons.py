"""Why the server itself pauses the scheduler or cordons a node."""

from __future__ import annotations

from typing import Final

from weft.model.status import Reason

POLICY_FAILED: Final = Reason.POLICY_FAILED
CLOSING: Final = Reason.CLOSING
"""The server is shutting down and kills what runs. The next server resumes."""
RECOVERING: Final = "Recovering"
"""The journal lacks facts: workers say first which runs they have."""
RECOVERING_DETAIL: Final = "the journal lacks facts: workers say first which runs they have"
DISK_FLOOR: Final = "DiskFloor"
FILE_LIMIT: Final = "FileLimit"
