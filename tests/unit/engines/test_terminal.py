"""The terminal of a command, and the client at its other end."""

from __future__ import annotations

import socket

import pytest

from weft.engines.process.shim import terminal


@pytest.mark.parametrize(("sent", "window"), [((0, 0), (24, 80)), ((41, 123), (41, 123))])
def test_a_window_without_a_size_has_the_usual_one_at_once(
    sent: tuple[int, int], window: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "FLUSH_S", 3600.0)
    client, served = socket.socketpair()
    with client, served:
        client.sendall(terminal.FRAME.pack(terminal.RESIZE, terminal.WINDOW.size) + terminal.WINDOW.pack(*sent))
        shown = terminal.Terminal(served, ["true"])
        shown._await_window()
        assert shown.window == window
