"""The rows as the last changes left them, for every screen that follows the scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from weft.views.answers.base import extend_view
from weft.views.answers.changes import ChangesView, CountsView
from weft.views.answers.nodes import GpuView, NodeView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView


class LiveRows:
    """Everything but jobs and events, of which each screen keeps as many as it shows."""

    def __init__(self) -> None:
        self.now = 0.0
        """The time of the last message, by the clock of the scheduler; 0: none has come."""
        self.counts = CountsView()
        self.gpus: dict[tuple[str, int], GpuView] = {}
        self.nodes: dict[str, NodeView] = {}
        self.services: list[ServiceView] = []
        self.weaves: list[WeaveView] = []

    def take(self, changes: ChangesView) -> None:
        """Bring the rows up to date."""
        self.now = changes.now
        if changes.reset:
            self.gpus.clear()
            self.nodes.clear()
            self.services, self.weaves = [], []
        if changes.counts is not None:
            self.counts = changes.counts
        self._drop_nodes(changes.left or ())
        self._put_gpus(changes)
        self.nodes.update((node.node, node) for node in changes.nodes or ())
        if changes.services is not None:
            self.services = list(changes.services)
        if changes.weaves is not None:
            self.weaves = list(changes.weaves)

    def _drop_nodes(self, left: Iterable[str]) -> None:
        """Drop nodes with their GPUs. New rows come after: a message may list a node that was lost as lost."""
        gone = set(left)
        for name in gone & self.nodes.keys():
            del self.nodes[name]
        for key in [key for key in self.gpus if key[0] in gone] if gone else ():
            del self.gpus[key]

    def _put_gpus(self, changes: ChangesView) -> None:
        self.gpus.update(((gpu.node, gpu.gpu), gpu) for gpu in changes.gpus or ())
        for node, rows in (changes.readings or {}).items():
            for number, used_mb, utilisation in rows:
                known = self.gpus.get((node, number))
                if known is not None:
                    usage = {"used_mb": used_mb, "utilisation": utilisation}
                    self.gpus[node, number] = extend_view(GpuView, known, usage)

    # ---- totals

    def busy(self) -> int:
        """Return the number of GPUs with a job."""
        return sum(bool(gpu.jobs) for gpu in self.gpus.values())

    def utilisation(self) -> float | None:
        """Return the mean utilisation in percent; None: no driver reports any."""
        found = [gpu.utilisation for gpu in self.gpus.values() if gpu.utilisation is not None]
        return sum(found) / len(found) if found else None
