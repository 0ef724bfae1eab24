"""A network that loses, doubles, delays and reorders messages, and is cut, also in one direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from clusters.mayhem import LEASE_S, Mayhem
from clusters.timeline import Timeline
from weft.access.wire.messages import AgentMessage, SchedulerMessage

if TYPE_CHECKING:
    from clusters.head import Head

FAST_S = 0.01
NOTICE_S = 2.0
"""The longest time until one end notices that the other has closed the connection."""


class Caller(Protocol):
    """A machine at its end of a connection."""

    name: str

    def hear(self, conn: int, message: SchedulerMessage) -> None: ...

    def hung_up(self, conn: int) -> None: ...


@dataclass(slots=True)
class Line:
    """One connection."""

    conn: int
    caller: Caller
    head: Head
    """The server at the other end."""
    open_there: bool = True
    """At the scheduler's end."""
    open_here: bool = True


@dataclass(slots=True)
class Network:
    time: Timeline
    mayhem: Mayhem
    head: Head = field(init=False)
    """The server, or the last of several."""
    heads: list[Head] = field(default_factory=list)
    """Several servers; callers dial any of them."""
    calm: bool = False
    deaf: set[str] = field(default_factory=set)
    """Machines that nothing reaches."""
    mute: set[str] = field(default_factory=set)
    """Machines of which nothing arrives."""
    _conns: count[int] = field(default_factory=lambda: count(1))
    _lines: dict[int, Line] = field(default_factory=dict)

    def dial(self, caller: Caller) -> int | None:
        """Return a new connection; None where no process answers."""
        head = self.time.chance.choice(self.heads) if self.heads else self.head
        if not head.up or caller.name in self.deaf or caller.name in self.mute:
            return None
        line = Line(next(self._conns), caller, head)
        self._lines[line.conn] = line
        return line.conn

    # ---- messages

    def to_head(self, conn: int, message: AgentMessage) -> None:
        line = self._lines[conn]

        def arrive() -> None:
            if line.head.up and (line.open_there or self._late()) and line.caller.name not in self.mute:
                line.head.hear(conn, message)

        self._carry(arrive)

    def to_caller(self, conn: int, message: SchedulerMessage) -> None:
        line = self._lines[conn]

        def arrive() -> None:
            if (line.open_here or self._late()) and line.caller.name not in self.deaf:
                line.caller.hear(conn, message)

        delay_s = 0.0 if self.calm else self._spite(line, message)
        if delay_s:
            self.time.after(delay_s, arrive)
        else:
            self._carry(arrive)

    def _spite(self, line: Line, message: SchedulerMessage) -> float:
        """By how much an order, or an answer to a heartbeat, is late with a cut that begins just then: what comes late
        is worst where it is the last that was heard for long. 0: it is not."""
        chance, kind = self.time.chance, message.WhichOneof("is")
        if kind == "start" and chance.random() < self.mayhem.late_orders:
            if chance.random() < 0.3:
                self.cut(line.caller.name, (self.deaf, self.mute))
            return chance.uniform(1, 4 * LEASE_S)
        if kind == "heartbeat" and chance.random() < self.mayhem.late_orders / 10:
            self.cut(line.caller.name, (self.mute,))
            return chance.uniform(4, 10)
        return 0.0

    def cut(self, name: str, ways: tuple[set[str], ...]) -> None:
        """For a while, less or more than a lease."""
        self.time.note(f"{name} is cut off: {len(ways)} way(s)")
        for way in ways:
            way.add(name)

        def mend() -> None:
            self.time.note(f"{name} is back")
            for way in ways:
                way.discard(name)

        self.time.after(self.time.chance.uniform(1, 3 * LEASE_S), mend)

    def _late(self) -> bool:
        """Not even what comes over a connection that was given up is to do harm."""
        return self.time.chance.random() < self.mayhem.stale

    def _carry(self, arrive: Callable[[], None]) -> None:
        chance, mayhem = self.time.chance, self.mayhem
        if self.calm:
            self.time.after(FAST_S, arrive)
            return
        if chance.random() < mayhem.loss:
            return
        for _ in range(2 if chance.random() < mayhem.doubling else 1):
            slow = mayhem.slowness_s and chance.random() < 0.3
            self.time.after(chance.uniform(0, mayhem.slowness_s) if slow else FAST_S * chance.random(), arrive)

    # ---- the ends of connections

    def hang_up(self, conn: int) -> None:
        """The caller closes it; the scheduler notices sooner or later, if at all."""
        line = self._lines[conn]
        line.open_here = False
        self._notice(lambda: line.open_there and line.caller.name not in self.mute, lambda: self._gone(line))

    def close(self, conn: int) -> None:
        """The scheduler closes it."""
        line = self._lines[conn]
        line.open_there = False
        self._notice(lambda: line.open_here and line.caller.name not in self.deaf, lambda: self._hung_up(line))

    def break_one(self) -> None:
        """A connection breaks; each end notices on its own."""
        lines = [line for line in self._lines.values() if line.open_here and line.open_there]
        if lines:
            line = self.time.chance.choice(lines)
            self.hang_up(line.conn)
            self.close(line.conn)
            self._notice(lambda: line.conn in line.head.conns, lambda: self._gone(line))
            self._notice(lambda: True, lambda: line.caller.hung_up(line.conn))

    def head_died(self, head: Head) -> None:
        for line in self._lines.values():
            if line.open_there and line.head is head:
                self.close(line.conn)

    def heal(self) -> None:
        """Everything works, and what was broken unnoticed is noticed."""
        self.calm = True
        self.deaf.clear()
        self.mute.clear()
        for line in self._lines.values():
            if line.open_here != line.open_there:
                self.hang_up(line.conn) if line.open_there else self.close(line.conn)

    def _notice(self, whether: Callable[[], bool], then: Callable[[], None]) -> None:
        self.time.after(NOTICE_S * self.time.chance.random(), lambda: then() if whether() else None)

    def _gone(self, line: Line) -> None:
        line.open_there = False
        if line.head.up:
            line.head.gone(line.conn)

    def _hung_up(self, line: Line) -> None:
        line.open_here = False
        line.caller.hung_up(line.conn)
