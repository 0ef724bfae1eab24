"""Views and JSON: what is written, what is read, and what an older or newer server sends."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

import weft.views.answers
from weft.views.answers.base import View, decode, encode, extend_view, plain, replace_fields
from weft.views.answers.jobs import CheckpointView, JobDetailView, JobFields, JobView, ProgressView, QueueView
from weft.views.answers.nodes import BlockView, GpusView, GpuView, MonitorView, NodeView

for module in pkgutil.iter_modules(weft.views.answers.__path__):
    importlib.import_module(f"weft.views.answers.{module.name}")


def kinds(kind: type[View] = View) -> list[type[View]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in kinds(sub))]


def held(hint: Any) -> type[View] | None:
    """The kind of view that a field holds, itself or in a list."""
    if get_origin(hint) in (Union, UnionType):
        return next((found for each in get_args(hint) if (found := held(each))), None)
    if get_origin(hint) is Sequence:
        return held(get_args(hint)[0])
    return hint if isinstance(hint, type) and issubclass(hint, View) else None


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_parts_and_optional_fields_are_those_of_the_annotations(kind: type[View]) -> None:
    modules = [importlib.import_module(each.__module__) for each in reversed(kind.__mro__)]
    hints = get_type_hints(kind, {name: value for module in modules for name, value in vars(module).items()})
    names = list(kind.DEFAULTS)
    assert dict(kind.PARTS) == {name: part for name in names if (part := held(hints[name]))}
    assert {*kind.OPTIONAL, *kind.OPTIONAL.values(), *kind.KEYS} <= set(names)
    assert kind() == kind(), "every field has a default"


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_view_comes_back_as_it_was(kind: type[View]) -> None:
    made = kind()
    again = decode(kind, encode(made))
    for name in kind.DEFAULTS:
        value = getattr(made, name)
        assert getattr(again, name) == (list(value) if isinstance(value, tuple) else value)


def test_the_fields_of_a_line_of_the_queue_are_those_of_its_view() -> None:
    hints = get_type_hints(JobView)
    assert get_type_hints(JobFields) == {name: hints[name] for name in JobView.DEFAULTS}


def test_views_within_views() -> None:
    progress = ProgressView(3, 4, None, {"loss": 0.5}, CheckpointView("/a", 3, "now"), "job")
    found = QueueView(now="now", position=3, jobs=[JobView(id="1", progress=progress)], paused_for={"Paused": ""})
    text = encode(found)
    assert '"from": "job"' in text
    assert "source" not in text
    assert decode(QueueView, text) == found
    assert encode(decode(QueueView, text)) == text


def test_keys_are_in_the_order_of_the_fields() -> None:
    keys = list(json.loads(encode(QueueView(now="now"))))
    assert keys == list(QueueView.DEFAULTS)


def test_what_nobody_knows_is_left_out_or_null() -> None:
    assert "now" not in json.loads(encode(QueueView()))
    plain_gpu, read = GpuView(node="n1"), GpuView(node="n1", used_mb=3)
    assert list(plain(plain_gpu))[-1] == "blocked"
    assert plain(read)["utilisation"] is None
    assert "misplaced" not in plain(read)
    assert "beat_s" not in plain(NodeView(state="lost"))
    assert "checkpoint" not in plain(JobDetailView())
    assert plain(JobDetailView(misplaced=()))["checkpoint"] is None


def test_an_older_server_leaves_keys_out_and_a_newer_one_has_more() -> None:
    found = decode(GpusView, '{"schema": 1, "gpus": [{"node": "n1", "colour": "red", "blocked": [{"reason": "x"}]}]}')
    (gpu,) = found.gpus
    assert (gpu.node, gpu.jobs, gpu.used_mb, gpu.blocked) == ("n1", (), None, [BlockView("x")])
    assert decode(NodeView, "{}").labels == {}
    assert replace_fields(gpu, gpu=2).gpu == 2
    with pytest.raises(AttributeError, match="has no field 'size'"):
        _ = gpu.size
    with pytest.raises(AttributeError, match="does not change"):
        gpu.node = "n2"  # type: ignore[misc]


def test_a_view_is_extended_by_what_another_kind_has() -> None:
    queue = decode(QueueView, '{"now": "now", "jobs": [{"id": "1"}], "running": 1, "later": true}')
    seen = extend_view(MonitorView, queue, {"gpus": [GpuView(node="n1")], "nodes": []})
    assert (seen.running, seen.jobs[0].id, seen.gpus[0].node) == (1, "1", "n1")


def test_only_views_are_written() -> None:
    with pytest.raises(TypeError, match="object is not a view"):
        encode(QueueView(jobs=[object()]))  # type: ignore[list-item]
