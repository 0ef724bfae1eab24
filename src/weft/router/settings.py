"""Limits and times of a router. Times of one service are in its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from weft.router.rules.refusals import Refusal

Guard = Callable[[bytes | None, str], Refusal | None]
"""Checks the Authorization header of a request from a peer. None: the request may pass."""


@dataclass(frozen=True, slots=True)
class RouterSettings:
    max_connections: int = 4000
    """Connections of clients; further ones get 503 and are closed."""
    max_head_bytes: int = 65_536
    """The request line and headers, or the trailers, of one request; also the head of an answer."""
    max_body_bytes: int = 1 << 30
    max_peek_bytes: int = 16 << 20
    """The part of an OpenAI request that the router reads to find the model."""
    max_held_bytes: int = 256 << 20
    """Bodies that the router holds in total, for requests that wait or may be sent again."""
    head_timeout_s: float = 15.0
    """The longest that a client takes to send the head of a request."""
    body_timeout_s: float = 60.0
    """The longest silence of a client within a body; see `min_body_rate`."""
    min_body_rate: float = 1000.0
    """Bytes per second. A client has `body_timeout_s` for its body, and further time by this rate for what it sends."""
    keep_alive_s: float = 75.0
    """The longest that a connection of a client stays open without a request."""
    connect_timeout_s: float = 3.0
    drain_s: float = 30.0
    """The longest that a router that stops goes on with the requests it has."""
    allowed_hosts: frozenset[bytes] | None = None
    """Host names that requests may name, apart from addresses and hosts of services; None: all."""
    guard: Guard | None = None
    """Checks each request; None: no token is needed."""


HOLD_BYTES: Final = 65_536
"""The part of a body that is read ahead while its request waits."""
REPLAY_BYTES: Final = 262_144
"""The largest body that is kept to be sent again."""
PROBE_PAUSE_S: Final = 1.0
"""The time between two probes of a replica that failed."""
CHECK_TIMEOUT_S: Final = 3.0
"""A replica is suspect if the agent of its node is silent and it does not answer a probe within this time."""
PATIENCE_S: Final = 1.0
"""A replica is suspect if a client that leaves has waited for this time without a byte of an answer."""
IDLE_REPLICA_S: Final = 4.0
"""An idle connection to a replica is closed after this time: before common servers close theirs."""
FRESH_S: Final = 1.0
"""A request that may not be sent twice uses only connections that were idle for less than this time."""
SWEEP_S: Final = 0.25
"""The time between two checks of deadlines."""
REFUSAL_DELAY_S: Final = 0.05
"""Refusals of a full queue wait this long, so that a flood of them leaves time for other services."""
