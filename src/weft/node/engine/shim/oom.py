"""Recognise GPU out-of-memory errors in the last part of a log."""

from __future__ import annotations

import os
from typing import Final

TAIL_BYTES: Final = 65536

_ALWAYS_OOM: Final = (
    b"torch.OutOfMemoryError",
    b"torch.cuda.OutOfMemoryError",
    b"CUDA out of memory",
    b"HIP out of memory",
    b"CUDA_ERROR_OUT_OF_MEMORY",
    b"cudaErrorMemoryAllocation",
)
_EXHAUSTED_ERRORS: Final = (b"RESOURCE_EXHAUSTED", b"ResourceExhaustedError")
_GPU_CONTEXT: Final = (b"GPU", b"gpu", b"CUDA", b"cuda", b"while trying to allocate")
"""gRPC also reports `RESOURCE_EXHAUSTED`; an out-of-memory line of XLA has one of these as well."""


def is_gpu_oom(text: bytes) -> bool:
    if any(pattern in text for pattern in _ALWAYS_OOM):
        return True
    if not any(pattern in text for pattern in _EXHAUSTED_ERRORS):
        return False
    lines = (line for line in text.split(b"\n") if any(pattern in line for pattern in _EXHAUSTED_ERRORS))
    return any(pattern in line for line in lines for pattern in _GPU_CONTEXT)


def read_tail(path: str, begin: int = 0) -> bytes:
    """Return the last `TAIL_BYTES` of a log, from `begin` on, the end of its older part included; nothing if it cannot
    be read."""
    text = _read_end(path, TAIL_BYTES, begin)
    return text if len(text) == TAIL_BYTES else _read_end(f"{path}.1", TAIL_BYTES - len(text)) + text


def _read_end(path: str, max_bytes: int, begin: int = 0) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        size = os.fstat(handle).st_size
        start = max(begin if begin <= size else 0, size - max_bytes)
        return os.pread(handle, max_bytes, start)
    except OSError:
        return b""
    finally:
        os.close(handle)
