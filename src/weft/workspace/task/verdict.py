"""When a task is complete. Stands alone: what runs beside a task loads it, and little else.

The marker counts first, then the process:

| marker | process                | the task is                                         |
|--------|------------------------|-----------------------------------------------------|
| yes    | alive, less than 60 s  | running                                             |
| yes    | alive, longer          | complete: the process is told to end                |
| yes    | exited with 0          | complete                                            |
| yes    | exited with another    | complete, with a warning                            |
| no     | alive                  | running                                             |
| no     | exited with 0          | complete: the marker is written                     |
| no     | exited with another    | failed; retried where auto_restart_failed says so   |

The session never counts: it only shows.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it, without loading it
if TYPE_CHECKING:
    from typing import Literal

    Verdict = Literal["running", "complete", "overdue", "warned", "unmarked", "failed"]

LINGER_S = 60.0
"""How long a process may live on after its marker."""
MARKER = "_completed.txt"


def verdict(*, marked: bool, marked_for_s: float = 0.0, code: int | None = None, linger_s: float = LINGER_S) -> Verdict:
    """`code`: how the process ended; None while it lives. `unmarked` is complete once the marker is written."""
    if code is None:
        return "overdue" if marked and marked_for_s >= linger_s else "running"
    if marked:
        return "complete" if code == 0 else "warned"
    return "unmarked" if code == 0 else "failed"
