"""Everything that a journal may hold. Adding a fact means writing its class and naming it in its module's union."""

from __future__ import annotations

from typing import Any, Final, get_args

from weft.model.decisions import Decision
from weft.model.events import Event
from weft.model.snapshots import Snapshot

Fact = Event | Decision | Snapshot
FACTS: Final[tuple[type[Any], ...]] = get_args(Fact)
