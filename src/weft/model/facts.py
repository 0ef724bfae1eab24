"""All facts that a journal may hold. To add one, write its class and add it to the union of its module."""

from __future__ import annotations

from typing import Any, Final, get_args

from weft.model.decisions import Decision
from weft.model.events import Event
from weft.model.snapshots import Snapshot

Fact = Event | Decision | Snapshot
FACTS: Final[tuple[type[Any], ...]] = get_args(Fact)
