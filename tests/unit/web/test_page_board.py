"""The rows of the page, and what browsers are sent of each change."""

from __future__ import annotations

from weft.views.answers.changes import ChangesView
from weft.views.answers.nodes import GpuView, NodeView
from weft.web.live.board import Board
from weft.web.live.job_table import JobTable


def test_a_lost_node_stays_and_one_that_left_goes() -> None:
    board = Board(JobTable())
    gpus = [GpuView(node=node, gpu=0) for node in ("n1", "n2")]
    board.apply(ChangesView(now=1.0, reset=True, gpus=gpus, nodes=[NodeView(node="n1"), NodeView(node="n2")]))
    sent = board.apply(ChangesView(now=2.0, left=["n1", "n2"], nodes=[NodeView(node="n2", state="lost")]))
    assert {name: node.state for name, node in board.nodes.items()} == {"n2": "lost"}
    assert not board.gpus
    assert sent["nodes"] == sent["gpus"] == b'{"reset":true}'
