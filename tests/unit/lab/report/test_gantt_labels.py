"""Names in a Gantt chart: only where there is room, and never over another bar."""

from __future__ import annotations

from weft.lab.report.gantt import Bar
from weft.lab.report.gantt_picture import place_labels


def named(*bars: Bar, rows: int = 8) -> list[str]:
    return [bar.job for bar, _, _ in place_labels(bars, 1000.0, rows)]


def test_a_name_needs_room() -> None:
    assert named(Bar("a", 0, 1, 0.0, 500.0, 0, 1), Bar("b", 1, 1, 0.0, 1.0, 0, 1)) == ["a"]


def test_the_name_of_a_host_is_not_under_a_guest() -> None:
    """The guest lies in the lower half of its rows: there the host's name would be hidden, or hide the guest's."""
    host, guest = Bar("host", 0, 4, 0.0, 1000.0, 0, 1), Bar("guest", 0, 4, 0.0, 1000.0, 1, 2)
    assert named(host, guest) == ["guest"]
    assert named(host, Bar("guest", 0, 4, 0.0, 100.0, 1, 2)) == ["host", "guest"]


def test_names_do_not_lie_upon_each_other() -> None:
    """Two guests of different GPUs of the same rows, one after the other in the list, at the same time."""
    one, two = Bar("one", 0, 4, 0.0, 1000.0, 1, 2), Bar("two", 2, 2, 0.0, 1000.0, 1, 2)
    assert len(named(one, two)) <= 1
