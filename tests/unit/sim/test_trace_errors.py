"""Errors of traces, with their lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.inputs.files import read_text
from weft.sim.traces.trace import read_trace

HEAD = "job_id,submit_s,gpus,duration_s\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,duration,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
)
GOOD = HEAD + "a,0,1,60\n"
OPTIONAL = "submit_s,gpus,duration_s,{}\n0,2,60,{}\n"


def error_of(path: Path, **options: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_trace(path, **options)  # type: ignore[arg-type]
    return caught.value


BAD_TEXTS: dict[str, tuple[str, int, str]] = {
    "empty": ("", 1, "an empty file"),
    "only blank lines": ("\n \n\n", 1, "an empty file"),
    "header only": ("\n" + HEAD, 2, "no jobs"),
    "unknown header": ("a,b\n1,2\n", 1, "found 'a', 'b'; expected one of\n    weft: submit_s,gpus,duration_s"),
    "no header": ("7,0,1,60\n", 1, "unknown trace format"),
    "no header, equal cells": ("1,0,1,60\n", 1, "is this line a header?"),
    "missing column": ("submit_s,gpus\n0,1\n", 1, "the weft format needs a column 'duration_s'"),
    "missing column lists what it found": ("submit_s,gpus\n0,1\n", 1, "found 'submit_s', 'gpus'"),
    "missing column of philly": ("timestamp,duration\n", 1, "the philly format needs a column 'num_gpus'"),
    "column twice": ("submit_s,gpus,gpus,duration_s\n", 1, "column 'gpus' occurs twice"),
    "unknown column": ("submit_s,gpus,duration_s,memory\n", 1, "known: memory_mb"),
    "too few cells": (GOOD + "b,0,1\n", 3, "too few cells\n  expected 4, as in the header, found 3"),
    "too many cells": (GOOD + "\nb,0,1,60,9\n", 4, "too many cells"),
    "words for a number": (GOOD + "b,0,1,soon\n", 3, "bad duration_s 'soon'"),
    "no number": (GOOD + "b,,1,60\n", 3, "bad submit_s ''"),
    "negative submit": (GOOD + "b,-1,1,60\n", 3, "expected a number from 0 to 1e+15, found '-1'"),
    "zero duration": (GOOD + "b,0,1,0\n", 3, "expected a number from 1e-06 to 1e+15, found '0'"),
    "negative duration": (GOOD + "b,0,1,-5\n", 3, "bad duration_s '-5'"),
    "zero GPUs": (GOOD + "b,0,0,60\n", 3, "expected a whole number from 1 to 1,000,000, found '0'"),
    "negative GPUs": (GOOD + "b,0,-8,60\n", 3, "bad gpus '-8'"),
    "half a GPU": (GOOD + "b,0,0.5,60\n", 3, "bad gpus '0.5'"),
    "too many GPUs": (GOOD + "b,0,1000001,60\n", 3, "bad gpus '1000001'"),
    "NaN": (GOOD + "b,nan,1,60\n", 3, "bad submit_s 'nan'"),
    "infinity": (GOOD + "b,0,1,inf\n", 3, "bad duration_s 'inf'"),
    "overflow": (GOOD + "b,0,1,1e999\n", 3, "bad duration_s '1e999'"),
    "long number": (GOOD + f"b,0,{'9' * 9000},60\n", 3, f"'{'9' * 40}'... (9,000 characters)"),
    "endless cell": (GOOD + f"b,0,1,{'9' * 200_000}\n", 3, "not CSV: field larger than field limit"),
    "duplicate id": (GOOD + "b,0,1,60\n\na,1,1,60\n", 5, "job id 'a' occurs twice\n  first on line 2"),
    "control character": (GOOD + "b\x1b[2J,0,1,60\n", 3, "expected text without control characters"),
    "newline in an id": (GOOD + '"b\nc",0,1,60\n', 3, "bad job_id 'b\\nc'"),
    "line after a quoted newline": ('job_id,submit_s,gpus,"duration_s\n"\na,0,1,60\nb,0,0,60\n', 4, "bad gpus"),
    "open quote": (GOOD + 'b,"0,1,60\n', 3, "not CSV"),
    "NUL": (GOOD + "b,0,1,6\x000\n", 3, "a NUL byte"),
    "the first of two": (GOOD + "b,9,0,60\nc,0,1,never\n", 3, "bad gpus"),
    "unknown model": (OPTIONAL.format("model", "bret"), 2, "known: bert"),
    "iterations": (OPTIONAL.format("iterations", "0"), 2, "bad iterations '0'"),
    "memory of three ranks": (OPTIONAL.format("memory_mb", "1+2+3"), 2, "one whole number, or 2 joined with +"),
    "negative memory": (OPTIONAL.format("memory_mb", "-1"), 2, "bad memory_mb '-1'"),
    "flag": (OPTIONAL.format("opportunistic", "maybe"), 2, "expected 0, 1, false or true, found 'maybe'"),
    "retries": (OPTIONAL.format("retries", "-1"), 2, "bad retries '-1'"),
    "date": (PHILLY + "yesterday,1,1,1,vc\n", 2, "expected a date such as 2017-10-09 07:01:55, found 'yesterday'"),
    "date out of range": (PHILLY + "0001-01-01T00:00:00+23:00,1,1,1,vc\n", 2, "bad timestamp"),
    "muri priority": (MURI + "0,1,0,10,bert,1000,100,1,2,3,2\n", 2, "bad priority '2'"),
    "muri without a model": (MURI + "0,1,0,10,,1000,100,1,2,3,0\n", 2, "expected the name of a model, found ''"),
    "muri without iterations": (MURI + "0,1,0,0,bert,1000,100,1,2,3,0\n", 2, "bad iterations '0'"),
    "muri iteration time": (MURI + "0,1,0,10,bert,1000,0,1,2,3,0\n", 2, "bad iteration_time '0'"),
}


@pytest.mark.parametrize(("text", "line", "fragment"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, fragment: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8", newline="")
    error = error_of(path)
    assert error.where == f"{path}:{line}"
    assert fragment in str(error)
    assert error.hint, "an error says what to do"


ZIPPED = gzip.compress((GOOD + "".join(f"{n},{n},1,{n + 1}\n" for n in range(999))).encode())

BAD_BYTES: dict[str, tuple[bytes, str, str]] = {
    "latin-1": (GOOD.encode() + b"caf\xe9,0,1,60\n", ":3", "expected UTF-8, found the byte 0xe9"),
    "UTF-16": (GOOD.encode("utf-16"), ":1", "is this a binary or UTF-16 file?"),
    "NUL in gzip": (gzip.compress(b"a\n\0"), ":2", "a NUL byte"),
    "truncated gzip": (ZIPPED[:-20], ":1000", "truncated gzip"),
    "gzip of two bytes": (ZIPPED[:2], ":1", "truncated gzip"),
    "corrupt gzip": (ZIPPED[:60] + bytes(40) + ZIPPED[100:], ":1", "corrupt gzip"),
    "checksum of gzip": (ZIPPED[:-8] + bytes(8), ":1002", "corrupt gzip: CRC check failed"),
    "empty gzip": (gzip.compress(b""), ":1", "an empty file"),
}


@pytest.mark.parametrize(("data", "line", "fragment"), BAD_BYTES.values(), ids=BAD_BYTES)
def test_a_file_that_is_not_text_is_refused(tmp_path: Path, data: bytes, line: str, fragment: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(data)
    error = error_of(path)
    assert error.where == f"{path}{line}"
    assert fragment in str(error)


def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(GOOD)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    expected = {
        tmp_path / "absent.csv": "no such file",
        tmp_path: "is a directory",
        tmp_path / "file" / "inside": "cannot be read: Not a directory",
        tmp_path / "loop": "cannot be read: Too many levels of symbolic links",
        tmp_path / "nul\0": "cannot be read: embedded null byte",
    }
    for path, what in expected.items():
        error = error_of(path)
        assert (error.where, error.what) == (str(path), what)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(9_000_000)))
    with pytest.raises(InputError, match=r"too large\n  expected at most 4,000,000 bytes, unpacked"):
        read_text(path, max_bytes=4_000_000)


def test_a_format_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    assert "unknown trace format 'phily'\n  known: philly" in str(error_of(path, format="phily"))


def test_a_format_that_is_named_but_does_not_match(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    assert "the muri format needs a column 'num_gpu'" in str(error_of(path, format="muri"))
