"""gRPC is imported quietly, and only its first import touches the environment."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from weft.access.client.quiet_grpc import load_grpc


class Unchangeable(dict[str, str]):
    def __setitem__(self, _name: str, _value: str) -> NoReturn:
        raise AssertionError("a thread that starts a process at this instant would fail: Bad address")


def test_once_loaded_the_environment_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    load_grpc()
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", Unchangeable())
        load_grpc()
