"""The events and replies that the registry produces. Replies are sent once the events are on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.access.wire.messages import SchedulerMessage
from weft.model import Event
from weft.server.nodes.registered_node import RegisteredNode


@dataclass(frozen=True, slots=True)
class Send:
    conn: int
    message: SchedulerMessage


@dataclass(frozen=True, slots=True)
class Close:
    """End the stream with this status. The registry has already forgotten the connection."""

    conn: int
    code: str
    """The name of a gRPC status."""
    words: str
    """The message: what is wrong, and what to do."""


Reply = Send | Close
Outcome = tuple[list[Event], list[Reply]]


@dataclass(slots=True)
class Outbox:
    """The events and replies to one message, while they are collected."""

    events: list[Event] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def send(self, member: RegisteredNode, message: SchedulerMessage) -> None:
        """Send a message to a node. A node that is not connected gets it when it reports again."""
        if member.conn is not None:
            self.replies.append(Send(member.conn, message))

    def flush(self) -> Outcome:
        """Return everything collected, and start afresh."""
        events, replies = self.events, self.replies
        self.events, self.replies = [], []
        return events, replies
