"""The table that routers get."""

from __future__ import annotations

from support.builders import Rig, grid
from weft.model import Cordoned, Deployed, Job, Ready, ScaleRule, Service, Uncordoned
from weft.model.status import Reason
from weft.server.services.routes import route_table


def silent_replicas(rig: Rig) -> list[str]:
    (service,) = route_table(rig.state, 1).services
    return [each.name for each in service.replicas if each.silent]


def test_replicas_of_a_silent_node_are_marked_in_a_new_table() -> None:
    rig = Rig("fifo", grid(2, 1))
    rig.tell(Deployed(rig.now, Service("a", Job("a"), ScaleRule(min_replicas=2, max_replicas=2))))
    rig.settle()
    rig.tell(*(Ready(rig.now, f"a.{at}", 1, f"127.0.0.1:{9000 + at}") for at in range(2)))
    assert silent_replicas(rig) == []
    ((node, _),) = rig.active["a.1"]
    for event, names in (
        (Cordoned(rig.now, node, Reason.NODE_SILENT), ["a.1"]), (Uncordoned(rig.now, node, Reason.NODE_SILENT), []),
    ):  # fmt: skip
        before = rig.state.services.revision
        rig.tell(event)
        assert silent_replicas(rig) == names
        assert rig.state.services.revision > before, "routers get the table"
