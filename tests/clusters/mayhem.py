"""The faults of a world and how often they happen, drawn from its seed: each seed has another mix."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

LEASE_S: Final = 16.0
HEARTBEAT_S: Final = 3.0
MARGIN_S: Final = 4.0
CHAOS_S: Final = 200.0
"""The time for which faults happen; afterwards everything works again."""


@dataclass(frozen=True, slots=True)
class Mayhem:
    """Chances per message, and mean seconds between events; 0: never."""

    loss: float
    doubling: float
    slowness_s: float
    """Most messages are fast; some take up to this long, and overtake each other."""
    late_orders: float
    """The part of the orders to start that come much too late, some of them after a cut."""
    stale: float
    """The part of the messages of a closed connection that still arrive."""
    cuts_s: float
    breaks_s: float
    head_crashes_s: float
    head_stalls_s: float
    """It stands still for a while, and then has all of it to do at once."""
    agent_crashes_s: float
    reboots_s: float
    shim_kills_s: float
    goodbyes_s: float
    """Mean time between agents that leave in order."""
    commit_s: float
    """The longest time of a write to the disk."""
    torn_commits: float
    """The part of the commits before or right after which the scheduler dies."""
    order_loss: float
    """The part of the orders that get lost between an agent and the shim that should carry them out."""
    slow_claims: float
    """The part of the orders that wait long for a shim."""
    impostor: bool
    """Another machine with the name of one of the nodes."""
    cancels: float
    longest_s: float
    """The longest job."""
    policy: str
    nodes: tuple[int, ...]
    """GPUs of each node."""
    sizes: tuple[int, ...]
    """The sizes of jobs. Where they are small there is room: a job that is given up starts elsewhere at once."""
    jobs: int


def draw(chance: Random) -> Mayhem:
    def often(mean_s: float) -> float:
        return mean_s * chance.uniform(0.5, 2) if chance.random() < 0.5 else 0.0

    def some(most: float) -> float:
        return chance.uniform(0, most) if chance.random() < 0.6 else 0.0

    return Mayhem(
        loss=some(0.2),
        doubling=some(0.2),
        slowness_s=chance.choice((0.0, 0.5, 8.0, 30.0)),
        late_orders=some(0.4),
        stale=some(0.8),
        cuts_s=often(15),
        breaks_s=often(15),
        head_crashes_s=often(40),
        head_stalls_s=often(60),
        agent_crashes_s=often(30),
        reboots_s=often(70),
        shim_kills_s=often(50),
        goodbyes_s=often(25),
        commit_s=chance.choice((0.0, 0.05, 1.0)),
        torn_commits=some(0.06),
        order_loss=some(0.1),
        slow_claims=some(0.4),
        impostor=chance.random() < 0.15,
        cancels=some(0.4),
        longest_s=chance.choice((10.0, 40.0, 120.0)),
        policy=chance.choice(("fifo", "srtf", "las", "tiresias", "priority")),
        nodes=chance.choice(((4, 4), (4, 4, 4), (8, 8), (2, 4, 8), (4, 4, 4, 4), (8, 8, 8))),
        sizes=chance.choice(((0, 1, 1, 2, 3, 4, 6, 8, 16), (1, 1, 2))),
        jobs=chance.randint(8, 20),
    )
