"""GPUs as text."""

from __future__ import annotations

import pytest

from weft.model import Slots
from weft.model.slots import format_message, format_slots, parse_slots, shorten_slots


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        ((), ""),
        ((("n1", ()),), "n1"),
        ((("n1", (0, 1)), ("n-2.x", (10,))), "n1[0,1],n-2.x[10]"),
        ((("n1", ()), ("n2", (3,))), "n1,n2[3]"),
    ],
)
def test_what_is_formatted_is_parsed(slots: Slots, text: str) -> None:
    assert format_slots(slots) == text
    assert parse_slots(text) == slots


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (["n4", "n3", "n8", "n10"], "n[3-4,8,10]"),
        (["n2"], "n2"),
        (["gpu01", "gpu02", "gpu10"], "gpu[01-02,10]"),
        (["gpu09", "gpu10", "gpu11"], "gpu[09-11]"),
        (["b", "a-1", "a-2", "n1"], "a-[1-2],n1,b"),
        ([f"n{at}" for at in range(1, 101)], "n[1-100]"),
    ],
)
def test_the_nodes_of_a_gang_are_named_in_order_and_in_short(nodes: list[str], text: str) -> None:
    assert shorten_slots(tuple((node, (0, 1)) for node in nodes)) == text


@pytest.mark.parametrize("text", ["[0]", "n1[", "n1[a]", "n1[0]n2", "n1 n2", "n1[]"])
def test_other_text_names_no_gpus(text: str) -> None:
    with pytest.raises(ValueError, match="names no GPUs"):
        parse_slots(text)


def test_a_message_has_its_gpus_numbered_where_it_is_printed() -> None:
    message = ("on ", (("n1", (0, 1)), ("n2", (0,))), " since 5 s")
    assert format_message(message) == "on n1[0,1], n2[0] since 5 s"
    doubled = format_message(message, lambda slots: tuple((node, tuple(2 * g for g in gpus)) for node, gpus in slots))
    assert doubled == "on n1[0,2], n2[0] since 5 s"
