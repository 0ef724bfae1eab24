"""Jobs, services, nodes, events and decisions, as immutable values.

`job` defines jobs, `service` services, `node` machines, `events` the scheduler's inputs, `decisions` its outputs,
`service_facts` both for services, `pool` and `pool_facts` pools of nodes, `team` teams, and `facts`
everything that a journal may hold. Times are in seconds. The backend sets `at`; the core reads no clock.

`from weft.model import NAME` imports only the modules needed for that name: creating the classes of all facts takes
longer than a small command.
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
    from weft.model.pool import *  # noqa: F403
    from weft.model.pool_facts import *  # noqa: F403
    from weft.model.service import *  # noqa: F403
    from weft.model.service_facts import *  # noqa: F403
    from weft.model.share import *  # noqa: F403
    from weft.model.snapshots import *  # noqa: F403
    from weft.model.team import *  # noqa: F403
    from weft.model.use import *  # noqa: F403
else:  # hidden from the type checker, which would accept every name
    from importlib import import_module

    MODULES = (
        "ids",
        "share",
        "node",
        "per_rank",
        "job",
        "service",
        "service_facts",
        "pool",
        "pool_facts",
        "team",
        "use",
        "events",
        "decisions",
        "snapshots",
        "facts",
    )
    """In the order of their imports."""

    def __getattr__(name: str) -> object:
        for module in MODULES:
            found = vars(import_module(f"weft.model.{module}"))
            if name in found and not name.startswith("_"):
                return globals().setdefault(name, found[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
