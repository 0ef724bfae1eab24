"""The end of a listening socket, without the loss of a connection."""

from __future__ import annotations

import ctypes
import socket
import struct
from contextlib import suppress
from typing import Final

SO_ATTACH_FILTER: Final = 26
DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)
"""One instruction of a packet filter: keep 0 bytes of every packet."""


def refuse_new_connections(listening: socket.socket) -> None:
    """Let the kernel drop further connections to a socket, until it is closed; the ones it has made stay.

    A connection made between the last `accept` and `close` would be reset, with the request on it. A client whose
    connection is dropped tries again, and is refused once the socket is closed: it has sent nothing.
    """
    program = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
    described = struct.pack("HL", 1, ctypes.addressof(program))
    with suppress(OSError):  # a kernel without packet filters
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, described)
