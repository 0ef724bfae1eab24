"""A job on the emulated device that is as quick to start as an interpreter allows: python -I -S program.py WORK FILE.

It takes WORK seconds, counted from the start of its process. When it is asked to stop, it saves the seconds done to
FILE and exits with the code of a checkpoint; the next run continues there. It imports only modules of C: `signal` and
`socket` alone would double the CPU time of a start.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
import sys
import time

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import NoReturn

EXIT_CHECKPOINTED = 85
TICKS_PER_S = 100
"""The unit of start times in /proc on Linux."""


class StopRequested(BaseException):
    """SIGTERM: the job saves and exits. It is no Exception, so that no code on the way handles it."""


def main(words: list[str]) -> int:
    work_s, file = float(words[0]), save_file(words[1])
    began = time.monotonic() - process_age_s()
    before_s = load(file)
    try:
        raise_on_stop()
        say(f"{work_s:.3f} s of work, from {before_s:.3f} s")
        while (left_s := work_s - before_s - (time.monotonic() - began)) > 0:
            time.sleep(left_s)
        ignore_stop()
    except StopRequested:
        done_s = before_s + time.monotonic() - began
        if done_s < work_s:
            save(file, done_s)
            say(f"saved at {done_s:.3f} s")
            return EXIT_CHECKPOINTED
    mark_done()
    return 0


def say(text: str) -> None:
    posix.write(1, f"emulated: {text}\n".encode())


def raise_on_stop() -> None:
    """Raise StopRequested, once, when SIGTERM comes."""
    _signal.signal(_signal.SIGTERM, _raise_stop)


def ignore_stop() -> None:
    """Ignore SIGTERM from now on: the work is done, and a stop must not make the job fail."""
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)


def _raise_stop(_number: int, _frame: object) -> NoReturn:
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    raise StopRequested


def process_age_s() -> float:
    """Return how long ago this process was started, to 10 ms; 0 where the kernel does not tell."""
    try:
        started = int(_read("/proc/self/stat").rpartition(b")")[2].split()[19]) / TICKS_PER_S
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def save_file(wanted: str) -> str:
    """Return the file for saves: in the checkpoint folder of the job if this node does not have the wanted folder."""
    folder, _, name = wanted.rpartition("/")
    try:
        posix.stat(folder or "/")
    except OSError:
        return f"{environment('WEFT_CKPT_DIR', '.')}/{name}"
    return wanted


def save(file: str, done: float) -> None:
    """Save the work of the first node's process: the others are as far."""
    if environment("WEFT_NODE_RANK", "0") != "0":
        return
    handle = posix.open(f"{file}.new", posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC, 0o600)
    posix.write(handle, repr(done).encode())
    posix.close(handle)
    posix.rename(f"{file}.new", file)


def load(file: str) -> float:
    try:
        return float(_read(file))
    except FileNotFoundError:
        return 0.0


def mark_done() -> None:
    """Make exit code 0 mean done, even if the job was asked to stop meanwhile."""
    if path := environment("WEFT_DONE_FILE"):
        posix.close(posix.open(path, posix.O_WRONLY | posix.O_CREAT, 0o600))


def environment(name: str, default: str = "") -> str:
    return posix.environ.get(name.encode(), default.encode()).decode()


def _read(path: str) -> bytes:
    handle = posix.open(path, posix.O_RDONLY)
    try:
        return posix.read(handle, 4096)
    finally:
        posix.close(handle)


if __name__ == "__main__":
    posix._exit(main(sys.argv[1:]))  # skip what an interpreter does at its end: it would delay the next run
