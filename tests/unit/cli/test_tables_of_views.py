"""The tables of jobs and nodes: their fields agree with the views, and every field can show a view."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from weft.cli.views import job_table, node_table
from weft.wire.messages import NodeStatus
from weft.wire.views.jobs import JobFields, JobView
from weft.wire.views.nodes import NodeView

NOT_IN_NODE_VIEW = {"ram_used_mb", "readings"}
"""Measured memory, which `NodeView` does not have: its `ram_used_mb` is reserved; and readings, which `GpuView` has."""


def test_the_dict_that_builds_a_job_view_has_its_fields() -> None:
    types = get_type_hints(JobView)
    assert get_type_hints(JobFields) == {name: types[name] for name in JobView.DEFAULTS}


@pytest.mark.parametrize("name", job_table.FIELDS)
def test_a_field_shows_a_job_without_values(name: str) -> None:
    assert isinstance(job_table.FIELDS[name].show(JobView()), str)


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
