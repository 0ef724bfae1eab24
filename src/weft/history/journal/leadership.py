"""The rules by which one of several servers leads (pure). The record is one row in the database of the journal.

- A server takes the lead if no server holds it, or if its holder has not renewed it for the holder's lease. The epoch
  rises by one each time.
- An append takes effect only under the present epoch. That is the fence: a deposed leader changes nothing.
- A leader answers callers until `Tenure.answers_until`: its last renewal, counted from before it was sent, plus its
  lease without a margin for clocks that run at different rates. So it has stopped when another server can take over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DRIFT: Final = 0.05
"""The part of the lease for which a leader does not answer, because clocks run at different rates."""
RENEWALS_PER_LEASE: Final = 4


@dataclass(frozen=True)
class LeaderRecord:
    """Which server leads."""

    epoch: int = 0
    """Rises by one whenever a server takes the lead."""
    holder: str = ""
    """A random name of the process that leads; empty: no server does."""
    address: str = ""
    """HOST:PORT of the leader, for the callers of other servers."""
    lease_s: float = 0.0
    renewed_at: float = 0.0
    """By the clock of the database: the only clock that is compared between servers."""

    def may_take(self, now: float) -> bool:
        return not self.holder or self.renewed_at < now - self.lease_s

    def taken(self, holder: str, address: str, lease_s: float, now: float) -> LeaderRecord | None:
        """Return the record after a server took the lead; None if it may not."""
        return LeaderRecord(self.epoch + 1, holder, address, lease_s, now) if self.may_take(now) else None

    def is_led(self, epoch: int, holder: str) -> bool:
        """Return whether this process still leads: whether its appends and renewals take effect."""
        return self.epoch == epoch and self.holder == holder

    def renewed(self, epoch: int, holder: str, now: float) -> LeaderRecord | None:
        return replace(self, renewed_at=now) if self.is_led(epoch, holder) else None

    def released(self, epoch: int, holder: str) -> LeaderRecord:
        """Return the record after this process gave the lead up; unchanged if it had lost it."""
        return replace(self, holder="", address="") if self.is_led(epoch, holder) else self


@dataclass
class Tenure:
    """The lease as its leader sees it, by the clock of its machine."""

    lease_s: float
    renewed_at: float
    """When the last renewal that took effect was sent."""

    def renew(self, sent_at: float) -> None:
        self.renewed_at = max(self.renewed_at, sent_at)

    @property
    def answers_until(self) -> float:
        return self.renewed_at + self.lease_s * (1.0 - DRIFT)

    @property
    def renewal_due(self) -> float:
        return self.renewed_at + self.lease_s / RENEWALS_PER_LEASE
