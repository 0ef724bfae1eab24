"""Give a command a terminal: `terminal.py [--at DIR | --client FD] [--pipe] [--] COMMAND...`. Runs as a script, in a
bare Python.

It listens on a socket in DIR, or in the run's directory, or at the descriptor that WEFT_TERMINAL_FD names. The
descriptor FD is connected to the client already. The first client that connects starts the command in a
pseudo-terminal, or with pipes, and the bytes of the two go back and forth. Output also goes to the log. When the client
goes away, the terminal hangs up, as ssh does.

    client    frames of kind (1 byte), length (4), body: D data, empty at its end; W rows and columns of the window
              (2 bytes each)
    script    bytes of the terminal, until the command has ended
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from typing import Final

SOCKET: Final = "terminal.sock"
LISTENER_VARIABLE: Final = "WEFT_TERMINAL_FD"
"""The descriptor of a socket that listens already."""
CLIENT_TIMEOUT_S: Final = 60.0
"""Time within which a client must connect."""
FLUSH_S: Final = 5.0
"""Time that a client has to send the size of its window, and to read the last output of a run: the log has it too."""
MAX_PENDING_BYTES: Final = 1 << 18
"""Bytes that may wait for a side that does not read. Then the other side waits."""
CHUNK_BYTES: Final = 1 << 16
FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
NO_CLIENT: Final = 1
FRAME: Final = struct.Struct(">cI")
WINDOW: Final = struct.Struct(">HH")
DATA: Final = b"D"
RESIZE: Final = b"W"


class Terminal:
    """One command in a terminal, and the client at its other end."""

    def __init__(
        self, client: socket.socket, argv: list[str], *, pipe: bool = False, flush_s: float | None = None
    ) -> None:
        self.client: socket.socket | None = client
        client.setblocking(False)
        self.argv, self.pipe = argv, pipe
        self.flush_s = flush_s
        """Time that the client has to read the last output; None: until it goes away."""
        self.frames = bytearray()
        self.to_command, self.to_client = bytearray(), bytearray()
        self.window, self.knows_window = (24, 80), False
        self.child, self.master, self.input = -1, -1, -1
        self.input_ended = False
        self.status: int | None = None
        self.signals: list[int] = []

    def run(self) -> int:
        """Run the command to its end and return its exit code."""
        reading, waking = os.pipe()
        for handle in (reading, waking):
            os.set_blocking(handle, False)
        signal.set_wakeup_fd(waking)
        for number in FORWARDED_SIGNALS:
            signal.signal(number, lambda received, _: self.signals.append(received))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._await_window()
        self._start()
        for handle in (self.master, self.input):
            os.set_blocking(handle, False)
        if not self.to_command:
            self._end_input()  # its end may have come with the size of the window
        while self.status is None:
            self._turn(reading)
        self._finish()
        return os.waitstatus_to_exitcode(self.status)

    def _start(self) -> None:
        """Start the command. Its output comes from `master`, its input goes to `input`."""
        if not self.pipe:
            self.child, self.master = os.forkpty()
            self.input = self.master
            if not self.child:
                self._become_command()
            return
        stdin, self.input = os.pipe()
        self.master, out = os.pipe()
        self.child = os.fork()
        if not self.child:
            os.setsid()
            for handle, number in ((stdin, 0), (out, 1), (out, 2)):
                os.dup2(handle, number)
            self._become_command()
        os.close(stdin)
        os.close(out)

    def _become_command(self) -> None:
        """In the child: execute the command."""
        for number in (*FORWARDED_SIGNALS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            if not self.pipe:
                self._resize(0)
            os.execvp(self.argv[0], self.argv)
        except OSError as error:
            os.write(2, f"weft: cannot execute {self.argv[0]!r}: {error.strerror}\n".encode())
            os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)

    def _await_window(self) -> None:
        """Read the size of the window, which a client sends first."""
        until = time.monotonic() + FLUSH_S
        while self.client is not None and not self.knows_window and time.monotonic() < until:
            select.select([self.client], [], [], max(0.0, until - time.monotonic()))
            self._read_client()

    def _turn(self, wakes: int) -> None:
        """Wait until something can be moved or has happened, and act on it."""
        reads, writes = [wakes], []
        if self.master >= 0 and len(self.to_client) < MAX_PENDING_BYTES:
            reads.append(self.master)
        if self.client is not None and len(self.to_command) < MAX_PENDING_BYTES:
            reads.append(self.client.fileno())
        if self.input >= 0 and self.to_command:
            writes.append(self.input)
        if self.client is not None and self.to_client:
            writes.append(self.client.fileno())
        can_read, can_write, _ = select.select(reads, writes, [])
        if wakes in can_read:
            os.read(wakes, CHUNK_BYTES)
        self._forward_signals()
        if self.client is not None and self.client.fileno() in can_read:
            self._read_client()
        if self.master in can_read:
            self._read_command()
        if self.input in can_write:
            self._write_command()
        if self.client is not None and self.client.fileno() in can_write:
            self._write_client()
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid:
            self.status = status

    def _forward_signals(self) -> None:
        while self.signals:
            number = self.signals.pop(0)
            if number == signal.SIGTERM and _ignores(self.child, number):
                number = signal.SIGHUP  # an interactive shell ignores SIGTERM
            os.kill(self.child, number)
            os.kill(self.child, signal.SIGCONT)

    # ---- the client

    def _read_client(self) -> None:
        assert self.client is not None
        try:
            data = self.client.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        self.frames += data
        while len(self.frames) >= FRAME.size:
            kind, size = FRAME.unpack_from(self.frames)
            end = FRAME.size + size
            if size > CHUNK_BYTES or kind not in (DATA, RESIZE):
                self._hang_up()
                return
            if len(self.frames) < end:
                return
            self._on_frame(kind, bytes(self.frames[FRAME.size : end]))
            del self.frames[:end]

    def _on_frame(self, kind: bytes, body: bytes) -> None:
        if kind == DATA:
            self.to_command += body
            self.input_ended = self.input_ended or not body
            if not self.to_command:
                self._end_input()
        elif len(body) == WINDOW.size:
            self.knows_window = True
            if any(found := WINDOW.unpack(body)):  # a terminal without a size, such as in CI, has 0 rows
                self.window = found
            if self.master >= 0 and not self.pipe:
                self._resize(self.master)

    def _write_client(self) -> None:
        assert self.client is not None
        try:
            del self.to_client[: self.client.send(self.to_client)]
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()

    def _hang_up(self) -> None:
        """End the connection and close the terminal: the kernel sends SIGHUP to the processes in it."""
        if self.client is not None:
            self.client.close()
        self.client = None
        self.to_client.clear()
        self._close_command()
        if self.pipe and self.child > 0:
            os.kill(self.child, signal.SIGHUP)

    def _close_command(self) -> None:
        for handle in {self.master, self.input} - {-1}:
            os.close(handle)
        self.master = self.input = -1

    def _end_input(self) -> None:
        """Close a pipe whose other end has sent everything."""
        if self.pipe and self.input_ended and self.input >= 0:
            os.close(self.input)
            self.input = -1

    # ---- the command

    def _read_command(self) -> bool:
        """Pass on some output; return False if there is none now."""
        try:
            data = os.read(self.master, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # every process of the terminal has closed it
        if not data:
            self._close_command()
            return False
        _write_log(data)
        if self.client is not None:
            self.to_client += data
        return True

    def _write_command(self) -> None:
        try:
            del self.to_command[: os.write(self.input, self.to_command)]
        except BlockingIOError:
            return
        except OSError:
            self.to_command.clear()
        if not self.to_command:
            self._end_input()

    def _resize(self, terminal: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *self.window, 0, 0))

    def _finish(self) -> None:
        """Send the last output to the client."""
        most = len(self.to_client) + MAX_PENDING_BYTES  # processes that the command left behind may go on writing
        while self.master >= 0 and len(self.to_client) < most and self._read_command():
            pass
        if self.client is None:
            return
        try:
            self.client.settimeout(self.flush_s)
            self.client.sendall(self.to_client)
            self.client.close()
        except OSError:
            return


def _ignores(pid: int, number: int) -> bool:
    """Return whether a process ignores a signal."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            found = next((line for line in file if line.startswith("SigIgn:")), "SigIgn: 0")
    except OSError:
        return False
    return bool(int(found.split()[1], 16) >> (number - 1) & 1)


def _write_log(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return  # for example a full disk: the client still gets it


def accept_client(folder: str) -> socket.socket | None:
    """Wait for a client at the socket in this folder; return None if none comes."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    path = f"/proc/self/fd/{directory}/{SOCKET}"  # the address of a socket is limited to 108 bytes
    try:
        previous_umask = os.umask(0o177)
        listener.bind(path)
        os.umask(previous_umask)
        listener.listen(1)
        listener.settimeout(CLIENT_TIMEOUT_S)
        return listener.accept()[0]
    except TimeoutError:
        return None
    finally:
        listener.close()
        if os.path.lexists(path):
            os.unlink(path)
        os.close(directory)


def accept_at(listener: socket.socket) -> socket.socket | None:
    """Wait for a client at a socket that listens; return None if none comes."""
    with listener:
        listener.settimeout(CLIENT_TIMEOUT_S)
        try:
            return listener.accept()[0]
        except TimeoutError:
            return None


def main(argv: list[str]) -> int:
    folder, pipe, connected = os.path.dirname(os.environ.get("WEFT_DONE_FILE", "")), False, -1
    flush_s = FLUSH_S if argv[0] not in ("--at", "--client") else None
    listening = os.environ.pop(LISTENER_VARIABLE, "")
    if argv[0] == "--at":
        folder, argv = argv[1], argv[2:]
    elif argv[0] == "--client":
        connected, argv = int(argv[1]), argv[2:]
    if argv[0] == "--pipe":
        pipe, argv = True, argv[1:]
    argv = argv[1:] if argv[0] == "--" else argv
    client: socket.socket | None
    if connected >= 0:
        client = socket.socket(fileno=connected)
        os.set_inheritable(connected, False)
    elif listening:
        client = accept_at(socket.socket(fileno=int(listening)))
    else:
        client = accept_client(folder)
    if client is None:
        sys.stderr.write(f"weft: no terminal was connected within {CLIENT_TIMEOUT_S:.0f} s\n")
        return NO_CLIENT
    code = Terminal(client, argv, pipe=pipe, flush_s=flush_s).run()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
