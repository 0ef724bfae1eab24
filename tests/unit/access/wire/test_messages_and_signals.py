"""Message classes and signals: an interrupt while protobuf creates a class must not crash the process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal
from weft.access.wire import messages

class Interrupted(Exception): pass

def interrupt(*_): raise Interrupted

signal.signal(signal.SIGALRM, interrupt)
names, interrupted = list(messages.__all__), 0
for trial in range(200):
    messages._schema.cache_clear()  # the classes are created again
    for name in [name for name in vars(messages) if name in names]:
        delattr(messages, name)
    messages._schema()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.00002 * trial)
        for name in names:
            getattr(messages, name)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupted:
        interrupted += 1
print(interrupted)
"""


def test_an_interrupt_never_crashes_the_creation_of_a_class() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
