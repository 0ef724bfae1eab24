"""The terminal of a command, and the client at its other end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from weft.node.engine.shim import terminal

WINDOW = terminal.FRAME.pack(terminal.RESIZE, terminal.WINDOW.size) + terminal.WINDOW.pack(24, 80)
END = terminal.FRAME.pack(terminal.DATA, 0)
TIMEOUT_S = 60.0


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


@contextmanager
def piped(*command: str) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """Run the script around a command with pipes; yield the client's end and the script."""
    client, served = socket.socketpair()
    with client, served:
        number = served.fileno()
        argv = [sys.executable, "-I", "-S", terminal.__file__, "--client", str(number), "--pipe", "--", *command]
        script = subprocess.Popen(argv, pass_fds=[number], stdout=subprocess.DEVNULL)
        served.close()
        client.settimeout(TIMEOUT_S)
        try:
            yield client, script
        finally:
            script.kill()
            script.wait()


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def test_the_last_output_in_a_pipe_reaches_a_client_that_reads_late() -> None:
    client, served = socket.socketpair()
    with client, served, ThreadPoolExecutor(1) as beside:
        client.settimeout(TIMEOUT_S)
        shown = terminal.Terminal(served, ["sh", "-c", "head -c 60000 /dev/zero"], pipe=True)
        shown.to_client += bytes(2 * terminal.MAX_PENDING_BYTES)
        shown._start()
        _, shown.status = os.waitpid(shown.child, 0)
        output = beside.submit(read_all, client)
        shown._finish()
        assert len(output.result()) == 2 * terminal.MAX_PENDING_BYTES + 60_000
        shown._close_command()


def test_input_that_ends_together_with_the_size_of_the_window_ends() -> None:
    with piped("cat") as (client, script):
        client.sendall(WINDOW + END)
        assert read_all(client) == b""
        assert script.wait(TIMEOUT_S) == 0
