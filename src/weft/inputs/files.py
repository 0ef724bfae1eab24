"""Text files: read plain or gzip text with errors that name the line, and write files atomically."""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from weft.errors import InputError, WeftError
from weft.inputs.atomic import write_atomic

MAX_TEXT_BYTES: Final = 1 << 30
"""The limit after unpacking, enough for some twenty million jobs: a small gzip can unpack to any size."""

_CHUNK_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 16
_GZIP_MAGIC: Final = b"\x1f\x8b"


def read_text(path: str | Path, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the file's text without a byte order mark. Unpack gzip, which is detected by content."""
    file = str(path)
    raw = _read_bytes(file, max_bytes)
    data = _unzip(raw, file, max_bytes) if raw.startswith(_GZIP_MAGIC) else raw
    if (nul := data.find(b"\0")) >= 0:
        raise InputError(
            "a NUL byte", where=_at_line(file, data, nul), hint="expected text; is this a binary or UTF-16 file?"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"expected UTF-8, found the byte 0x{data[error.start]:02x}; convert it: iconv -t utf-8"
        raise InputError("not UTF-8 text", where=_at_line(file, data, error.start), hint=found) from None


def check_target(path: str | Path, *, force: bool) -> None:
    """Raise InputError if no file may be written there."""
    target = Path(path)
    if target.is_dir():
        raise InputError("is a directory", where=str(path), hint="expected a file; name one inside it")
    if target.is_file() and not force:
        raise InputError("exists", where=str(path), hint="name another file, or let --force replace it")


def write_file(path: str | Path, data: bytes) -> None:
    """Write a file atomically; write to a pipe or device directly."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            write_atomic(target, data, mode=0o666)  # the umask applies, as for any file of the user
    except OSError as error:
        raise WeftError(f"cannot write {path}: {error.strerror or error}") from None


def _read_bytes(file: str, max_bytes: int) -> bytes:
    try:
        with open(file, "rb") as stream:
            return _read_stream(stream, file, max_bytes)
    except FileNotFoundError:
        raise InputError(
            "no such file", where=file, hint="check the path; weft runs in the current directory"
        ) from None
    except IsADirectoryError:
        raise InputError("is a directory", where=file, hint="expected a file; name one inside it") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {why}", where=file, hint="check the path and its permissions") from None


def _unzip(raw: bytes, file: str, max_bytes: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            return _read_stream(stream, file, max_bytes)
    except EOFError:
        what = "truncated gzip: it ends too early"
    except (OSError, zlib.error) as error:
        what = f"corrupt gzip: {error}"
    hint = "expected a complete gzip file; this one unpacks up to this line; fetch or copy it again"
    raise InputError(what, where=f"{file}:{_count_intact_lines(raw)}", hint=hint)


def _count_intact_lines(raw: bytes) -> int:
    """Return the number of lines that can be unpacked, including the incomplete last one."""
    unzipper = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    lines = 1
    for at in range(0, len(raw), _PIECE_BYTES):
        piece, before = raw[at : at + _PIECE_BYTES], unzipper.copy()
        try:
            lines += unzipper.decompress(piece).count(b"\n")
        except zlib.error:
            with suppress(zlib.error):  # count the intact part of the damaged piece
                for byte in piece:
                    lines += before.decompress(bytes([byte])).count(b"\n")
            break
    return lines


def _read_stream(stream: BinaryIO | gzip.GzipFile, file: str, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise InputError("too large", where=file, hint=f"expected at most {max_bytes:,} bytes, unpacked")
    return b"".join(chunks)


def _at_line(file: str, data: bytes, offset: int) -> str:
    line = data.count(b"\n", 0, offset) + 1
    return f"{file}:{line}"
