"""Two schedulers on one database, of which one leads: as `weft.server.leadership` does it, by the rules of
`weft.history.journal.leadership`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusters.head import Head
from clusters.mayhem import Mayhem
from clusters.network import Network
from clusters.timeline import Timeline
from weft.access.wire.messages import AgentMessage
from weft.history.journal.leadership import LeaderRecord, Tenure
from weft.model import Fact

LEADER_LEASE_S = 6.0
WATCH_S = 0.5


@dataclass
class Database:
    """The facts and the record of the leader. It is never away, and its clock is the true time."""

    facts: list[Fact] = field(default_factory=list)
    record: LeaderRecord = field(default_factory=LeaderRecord)

    def append(self, epoch: int, holder: str, facts: Sequence[Fact], now: float) -> bool:
        """One statement: it adds the facts and renews the lease, or does nothing."""
        renewed = self.record.renewed(epoch, holder, now)
        if renewed is None:
            return False
        self.record = renewed
        self.facts += facts
        return True


class LedHead(Head):
    """One of two servers: a standby until it can take the lead, and again when it is deposed."""

    def __init__(
        self, name: str, database: Database, time: Timeline, network: Network, mayhem: Mayhem, offset_s: float
    ) -> None:
        self.name, self.database = name, database
        self.tenure: Tenure | None = None
        self.last_epoch = 0
        super().__init__(time, network, mayhem, offset_s)

    @property
    def disk(self) -> list[Fact]:
        return self.database.facts

    @disk.setter
    def disk(self, facts: list[Fact]) -> None:
        """Keep the facts of the database."""

    def start(self) -> None:
        """Become a standby."""
        self.epoch, self.tenure = 0, None
        super().start_empty()
        self._watch(self._life)

    def _watch(self, life: int) -> None:
        now = self._time.now
        if not self.stalled and self.tenure is None:
            taken = self.database.record.taken(self.name, self.name, LEADER_LEASE_S, now)
            if taken is not None:
                self.database.record, self.epoch, self.last_epoch = taken, taken.epoch, taken.epoch
                self.tenure = Tenure(LEADER_LEASE_S, now)
                self._time.note(f"{self.name} leads, in epoch {self.epoch}")
                super().start()
                life = self._life
        elif not self.stalled and self._leads() and self.tenure is not None:
            if self.database.append(self.epoch, self.name, [], now):
                self.tenure.renew(now)
            else:
                self._depose()
        if life == self._life:
            self._time.after(WATCH_S, self._alive(life, lambda: self._watch(life)))

    def _leads(self) -> bool:
        if self.tenure is not None and self._time.now < self.tenure.answers_until:
            return True
        if self.tenure is not None:
            self._depose()
        return False

    def _depose(self) -> None:
        self._time.note(f"{self.name} does not lead any more")
        self._network.head_died(self)
        self.start()

    def step_down(self) -> None:
        if self.up and not self.stalled and self.tenure is not None:
            self._time.note(f"{self.name} gives up the lead")
            self.database.record = self.database.record.released(self.epoch, self.name)
            self._depose()

    def _store(self, facts: Sequence[Fact]) -> bool:
        now = self._time.now
        if self.tenure is None or not self.database.append(self.epoch, self.name, facts, now):
            self._depose()
            return False
        self.tenure.renew(now)
        return True

    def hear(self, conn: int, message: AgentMessage) -> None:
        if self.tenure is not None:
            super().hear(conn, message)
        elif not self.stalled:  # a standby refuses
            self._network.close(conn)

    def gone(self, conn: int) -> None:
        if self.tenure is not None:
            super().gone(conn)
