"""Which last words mean that GPU memory ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.node.engine.shim.oom import TAIL_BYTES, is_gpu_oom, read_tail


@pytest.mark.parametrize(
    "text",
    [
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        b"torch.cuda.OutOfMemoryError: CUDA out of memory.",
        b"RuntimeError: CUDA out of memory.",
        b"pycuda: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        b"thrust: cudaErrorMemoryAllocation: out of memory",
        b"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17 bytes",
        b"ResourceExhaustedError: OOM when allocating tensor on /device:GPU:0 by allocator GPU_0_bfc",
    ],
)
def test_recognised(text: bytes) -> None:
    assert is_gpu_oom(b"epoch 1\n" + text + b"\nbye\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"MemoryError",
        b"grpc: RESOURCE_EXHAUSTED: received message larger than max\nno GPU in this line",
        b"Out of memory: Killed process 7",
    ],
)
def test_not_taken_for_it(text: bytes) -> None:
    assert not is_gpu_oom(text)


def test_only_the_end_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"CUDA out of memory\n" + b"x" * TAIL_BYTES)
    assert not is_gpu_oom(read_tail(str(log)))
    assert read_tail(str(tmp_path / "none")) == b""
