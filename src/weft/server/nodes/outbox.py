"""What the registry says, and wants done once that is on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.model import Event
from weft.server.nodes.registered_node import RegisteredNode
from weft.wire.messages import SchedulerMessage


@dataclass(frozen=True, slots=True)
class Send:
    conn: int
    message: SchedulerMessage


@dataclass(frozen=True, slots=True)
class Close:
    """End the stream with this status. The registry has forgotten the connection already."""

    conn: int
    code: str
    """The name of a gRPC status."""
    words: str
    """What is wrong, and what to do."""


Reply = Send | Close
Taken = tuple[list[Event], list[Reply]]


@dataclass(slots=True)
class Outbox:
    """What comes of one message, as it is put together."""

    events: list[Event] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def send(self, member: RegisteredNode, message: SchedulerMessage) -> None:
        """To a node that is not connected nothing is sent: it is told when it is heard of again."""
        if member.conn is not None:
            self.replies.append(Send(member.conn, message))

    def taken(self) -> Taken:
        """All of it; the next begins anew."""
        events, replies = self.events, self.replies
        self.events, self.replies = [], []
        return events, replies
