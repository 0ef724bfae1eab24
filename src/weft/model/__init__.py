"""The nouns and the facts: all of them immutable values.

Times are seconds; the engine stamps `at`, the core never asks a clock.
"""

from __future__ import annotations

from weft.model.facts import (
    DECISIONS,
    EVENTS,
    FACTS,
    Alarm,
    Blocked,
    Cancelled,
    Closed,
    Decision,
    Edited,
    Event,
    Exited,
    Fact,
    Forgotten,
    Held,
    Limited,
    Measured,
    NodeJoined,
    NodeLost,
    Opened,
    Operated,
    Outcome,
    Past,
    Paused,
    Planned,
    Progressed,
    Recalled,
    Released,
    Reserve,
    Restored,
    Resumed,
    Start,
    Started,
    Stepped,
    Stop,
    StopReason,
    Submitted,
    Unblocked,
    Wake,
)
from weft.model.nouns import (
    ANYWHERE,
    WHOLE,
    Gpu,
    Job,
    JobId,
    Node,
    NodeId,
    Profile,
    Seconds,
    Share,
    Slots,
    Task,
    Where,
)

__all__ = [
    "ANYWHERE", "DECISIONS", "EVENTS", "FACTS", "WHOLE", "Alarm", "Blocked", "Cancelled", "Closed", "Decision",
    "Edited", "Event", "Exited", "Fact", "Forgotten", "Gpu", "Held", "Job", "JobId", "Limited", "Measured", "Node",
    "NodeId", "NodeJoined", "NodeLost", "Opened", "Operated", "Outcome", "Past", "Paused", "Planned", "Profile",
    "Progressed", "Recalled", "Released", "Reserve", "Restored", "Resumed", "Seconds", "Share", "Slots", "Start",
    "Started", "Stepped", "Stop", "StopReason", "Submitted", "Task", "Unblocked", "Wake", "Where",
]  # fmt: skip
