"""Query strings: every one is either read or refused with the name of the parameter, never a failure."""

from __future__ import annotations

from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from weft.errors import InputError
from weft.web.api.params import MAX_TEXT_CHARS, Params


def params(query: bytes) -> Params:
    return Params(Request({"type": "http", "query_string": query, "headers": []}))


def read(query: bytes) -> tuple[str, int, str, tuple[str, ...]]:
    given = params(query)
    found = (
        given.text("text"), given.whole("page", 1, 1, 99), given.choice("sort", ("id", "name"), "id"),
        given.choices("states", ("running", "ended")),
    )  # fmt: skip
    given.done()
    return found


def test_parameters_have_defaults() -> None:
    assert read(b"") == ("", 1, "id", ())
    assert read(b"page=7&sort=name&states=ended,running&text=a%20b") == ("a b", 7, "name", ("ended", "running"))


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (b"page=0", "page"), (b"page=-1", "page"), (b"page=1e3", "page"), (b"page=" + b"9" * 500, "page"),
        ("page=\u0663".encode(), "page"), (b"sort=number", "sort"), (b"states=running,nope", "states"),
        (b"text=" + b"x" * (MAX_TEXT_CHARS + 1), "text"), (b"text=%00", "text"), (b"page=1&page=2", "twice"),
        (b"&".join(b"a%d=1" % at for at in range(30)), "too many"), (b"colour=red", "parameter"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused_by_name(query: bytes, what: str) -> None:
    with pytest.raises(InputError) as raised:
        read(query)
    assert what in str(raised.value)
    assert len(str(raised.value)) < 500


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("text", "page", "sort", "states", "x")), st.binary(max_size=300), st.booleans()),
        max_size=25,
    )
)
def test_nothing_else_than_a_refusal_is_raised(pairs: list[tuple[str, bytes, bool]]) -> None:
    query = b"&".join(
        name.encode() + b"=" + (quote_from_bytes(value).encode() if quoted else value) for name, value, quoted in pairs
    )
    try:
        text, page, sort, states = read(query)
    except InputError:
        return
    assert len(text) <= MAX_TEXT_CHARS
    assert 1 <= page <= 99
    assert sort in ("id", "name")
    assert set(states) <= {"running", "ended"}
