"""The rules by which a task is complete. The keeper of every task loads this module, so it imports little.

The marker counts first, then the process:

| marker | process                | the task is                                         |
|--------|------------------------|-----------------------------------------------------|
| yes    | alive, less than 60 s  | running                                             |
| yes    | alive, longer          | complete: the keeper ends the process               |
| yes    | exited with 0          | complete                                            |
| yes    | exited with another    | complete, with a warning                            |
| no     | alive                  | running                                             |
| no     | exited with 0          | complete: the keeper writes the marker              |
| no     | exited with another    | failed; retried if auto_restart_failed is set       |

The session never counts: it only shows the task.
"""

from __future__ import annotations

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Literal

    Verdict = Literal["running", "complete", "overdue", "warned", "unmarked", "failed"]

LINGER_S = 60.0
"""Time for which a process may outlive its marker."""
MARKER = "_completed.txt"


def verdict(*, marked: bool, marked_for_s: float = 0.0, code: int | None = None, linger_s: float = LINGER_S) -> Verdict:
    """Return the verdict. `code`: the exit code, None while the process lives. `unmarked`: complete, write a marker."""
    if code is None:
        return "overdue" if marked and marked_for_s >= linger_s else "running"
    if marked:
        return "complete" if code == 0 else "warned"
    return "unmarked" if code == 0 else "failed"
