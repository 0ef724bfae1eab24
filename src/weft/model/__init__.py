"""Jobs, nodes, events and decisions: all of them immutable values.

`job` holds what a user submits, `node` machines, `events` what happened, `decisions` what the scheduler decided, and
`facts` all that a journal may hold. Times are seconds; the backend stamps `at`, the core never asks a clock.

`from weft.model import NAME` loads the module of that name alone: making the classes of all facts takes longer than a
small command does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model.decisions import *  # noqa: F403
    from weft.model.events import *  # noqa: F403
    from weft.model.facts import *  # noqa: F403
    from weft.model.ids import *  # noqa: F403
    from weft.model.job import *  # noqa: F403
    from weft.model.node import *  # noqa: F403
    from weft.model.per_rank import *  # noqa: F403
    from weft.model.share import *  # noqa: F403
    from weft.model.snapshots import *  # noqa: F403
else:  # hidden from the type checker: it would let every name pass
    from importlib import import_module

    MODULES = ("ids", "share", "node", "per_rank", "job", "events", "decisions", "snapshots", "facts")
    """Those that others import come first."""

    def __getattr__(name: str) -> object:
        for module in MODULES:
            found = vars(import_module(f"weft.model.{module}"))
            if name in found and not name.startswith("_"):
                return globals().setdefault(name, found[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
