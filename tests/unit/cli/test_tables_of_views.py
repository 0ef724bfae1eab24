"""The tables of jobs and nodes: their fields agree with the views, and every field can show a view."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from weft.access.wire.messages import NodeStatus
from weft.cli import tables
from weft.cli.views import job_table, node_table
from weft.views.answers.jobs import JobFields, JobView
from weft.views.answers.nodes import NodeView

NOT_IN_NODE_VIEW = {"ram_used_mb", "readings", "shares", "disk_free_mb"}
"""Measured memory, of which `NodeView` has only the reserved part; readings and shares are in `GpuView`; `weft doctor`
shows the free space."""


def test_the_dict_that_builds_a_job_view_has_its_fields() -> None:
    types = get_type_hints(JobView)
    assert get_type_hints(JobFields) == {name: types[name] for name in JobView.DEFAULTS}


@pytest.mark.parametrize("name", job_table.FIELDS)
def test_a_field_shows_a_job_without_values(name: str) -> None:
    assert isinstance(job_table.FIELDS[name].show(JobView()), str)


def test_a_large_gang_is_shown_by_its_nodes_in_order() -> None:
    where = job_table.FIELDS["where"].show
    gpus = "[0,1,2,3,4,5,6,7]"
    assert where(JobView(place=f"n4{gpus},n3{gpus},n8{gpus},n10{gpus}")) == "n[3-4,8,10]"
    assert where(JobView(place="n4[0,1],n3[0]")) == "n4[0,1],n3[0]"
    assert where(JobView(place=f"a-node-with-a-long-name{gpus}")) == f"a-node-with-a-long-name{gpus}"


@pytest.mark.parametrize(("columns", "shown"), [(200, "x" * 60), (75, "x" * 40 + "…"), (20, "x" * 29 + "…")])
def test_names_use_the_width_of_the_terminal(columns: int, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_columns", lambda: columns)
    rows = [JobView(id="7", name="x" * 60, user="ada", state="PD", reason="Resources")]
    (line,) = tables.format_lines(*job_table.table(rows, job_table.QUEUE), colour=False, narrow=True, header=False)
    assert f" {shown} " in line
    assert len(line) <= columns or columns == 20


@pytest.mark.parametrize("name", node_table.FIELDS)
def test_a_field_shows_a_node_without_values(name: str) -> None:
    columns, rows = node_table.table([NodeView(node="n1")], [name])
    assert columns == [node_table.FIELDS[name].column]
    assert rows[0][0].text


def test_every_field_of_a_heartbeat_is_in_the_view_of_a_node() -> None:
    assert set(NodeStatus.DESCRIPTOR.fields_by_name) - NOT_IN_NODE_VIEW <= set(NodeView.DEFAULTS)
    assert set(NodeStatus.DESCRIPTOR.fields_by_name) >= NOT_IN_NODE_VIEW


def test_every_table_of_nodes_names_known_fields() -> None:
    for names in (node_table.MACHINES, node_table.MEMBERS, node_table.WORKERS):
        assert set(names) <= set(node_table.FIELDS)
    assert set(node_table.MACHINES) < set(node_table.MEMBERS)
