"""An error arrives at the client as the class it was raised as, or as the nearest class that the wire knows."""

from __future__ import annotations

import pytest

from weft.access.wire.failures import decode_error, encode_error
from weft.errors import InputError, NotFound, Refused, WeftError
from weft.inputs.locks import Locked


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotFound("no job 7"), NotFound),
        (Refused("not now"), Refused),
        (Locked("the journal is in use", "end the other one", 7), Refused),
    ],
)
def test_the_kind_survives(error: WeftError, kind: type[WeftError]) -> None:
    found = decode_error(encode_error(error))
    assert (type(found), str(found)) == (kind, str(error))


def test_key_and_index_survive() -> None:
    found = decode_error(encode_error(InputError("not a number", hint="give one", key="gpus", index=3)))
    assert isinstance(found, InputError)
    assert (found.what, found.hint, found.key, found.index) == ("not a number", "give one", "gpus", 3)


def test_text_that_is_no_error_is_none() -> None:
    assert decode_error("garbage") is None
