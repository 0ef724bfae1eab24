"""Connections to the terminals of runs: on this machine to the run itself, on a cluster through its scheduler."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from weft.access.wire import messages as m
from weft.errors import WeftError

CHUNK_BYTES: Final = 1 << 15
Converse = Callable[[Iterator[m.TerminalPart]], Iterator[m.TerminalPart]]
"""Makes a call in which both sides send a stream."""


class Tunnel:
    """A socket whose other end is the terminal of a run on a node of a cluster."""

    def __init__(self, converse: Converse, first: m.TerminalPart) -> None:
        self.socket, self._far = socket.socketpair()
        self._first = first
        self.exit_code: int | None = None
        """The exit code of the command; None: not known."""
        self.error: WeftError | None = None
        """Why the connection ended, unless the run ended it."""
        threading.Thread(target=self._receive, args=(converse,), daemon=True).start()

    def _receive(self, converse: Converse) -> None:
        try:
            for part in converse(self._sent()):
                if part.HasField("exit_code"):
                    self.exit_code = part.exit_code
                self._far.sendall(part.data)
        except WeftError as error:
            self.error = error
        except OSError:
            pass  # the user has closed the other end
        finally:
            with suppress(OSError):
                self._far.shutdown(socket.SHUT_RDWR)

    def _sent(self) -> Iterator[Any]:
        yield self._first
        with suppress(OSError):
            while data := self._far.recv(CHUNK_BYTES):
                yield m.TerminalPart(data=data)
