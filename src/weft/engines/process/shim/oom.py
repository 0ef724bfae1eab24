"""Tells from the end of a log whether a job ran out of GPU memory."""

from __future__ import annotations

import os
from typing import Final

TAIL_BYTES: Final = 65536

_SURE: Final = (
    b"torch.OutOfMemoryError",
    b"torch.cuda.OutOfMemoryError",
    b"CUDA out of memory",
    b"HIP out of memory",
    b"CUDA_ERROR_OUT_OF_MEMORY",
    b"cudaErrorMemoryAllocation",
)
_EXHAUSTED: Final = (b"RESOURCE_EXHAUSTED", b"ResourceExhaustedError")
_OF_GPU: Final = (b"GPU", b"gpu", b"CUDA", b"cuda", b"while trying to allocate")
"""`RESOURCE_EXHAUSTED` alone is also what a remote call says; in XLA's line one of these follows."""


def ran_out(text: bytes) -> bool:
    if any(sign in text for sign in _SURE):
        return True
    if not any(sign in text for sign in _EXHAUSTED):
        return False
    lines = (line for line in text.split(b"\n") if any(sign in line for sign in _EXHAUSTED))
    return any(sign in line for line in lines for sign in _OF_GPU)


def tail(path: str) -> bytes:
    """The end of a file; nothing where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        size = os.fstat(handle).st_size
        return os.pread(handle, TAIL_BYTES, max(0, size - TAIL_BYTES))
    except OSError:
        return b""
    finally:
        os.close(handle)
