"""The output of jobs, made safe to print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from weft.cli.views.log_text import collapse_redraws, strip_escape_codes
from weft.text import display_width, escape_controls, format_clock, truncate

COLLAPSED = {
    "plain": (b"a\nb\n", b"a\nb\n"),
    "a bar": (b"  0%\r 50%\r100%\ndone\n", b"100%\ndone\n"),
    "a bar that goes on": (b"a\n 1%\r 2%\r", b"a\n 2%\r"),
    "line ends of Windows": (b"a\r\nb\r\n", b"a\r\nb\r\n"),
    "a bar with these": (b"1%\r2%\r\n", b"2%\r\n"),
    "nothing but returns": (b"\r\r\r", b""),
    "no line end": (b"a\nb", b"a\nb"),
    "nothing": (b"", b""),
    "not text": (b"\xff\r\xfe\n", b"\xfe\n"),
}
HARMLESS = {
    "colours": ("\x1b[1;31mred\x1b[0m\n", "red\n"),
    "cursor": ("a\x1b[2J\x1b[1;1Hb", "ab"),
    "title": ("a\x1b]0;evil\x07b\x1b]2;x\x1b\\c", "abc"),
    "device strings": ("a\x1bP1$r\x1b\\b", "ab"),
    "reset": ("a\x1bcb\x1b(0c", "abc"),
    "bell and backspace": ("a\x07\x08b", "a\\x07\\x08b"),
    "C1": ("a\x9b31mb\x85c", "a\\x9b31mb\\x85c"),
    "bidi": ("a\u202eb", "a\\u202eb"),
    "kept": ("a\tb\r\nc", "a\tb\r\nc"),
    "wide": ("训练 ok\n", "训练 ok\n"),
    "half a code": ("a\x1b[3", "a\\x1b[3"),
}


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def joined(texts: Iterable[str]) -> str:
    return "".join(texts)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("data", "expected"), COLLAPSED.values(), ids=COLLAPSED)
def test_a_line_drawn_again_and_again_is_one_line(data: bytes, expected: bytes, size: int) -> None:
    assert b"".join(collapse_redraws(pieces(data, size))) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("text", "expected"), HARMLESS.values(), ids=HARMLESS)
def test_a_terminal_has_nothing_to_obey(text: str, expected: str, size: int) -> None:
    assert joined(strip_escape_codes(pieces(text.encode(), size))) == expected


def test_what_is_not_text_is_shown() -> None:
    assert joined(strip_escape_codes([b"a\xff\xfeb"])) == "a\\xff\\xfeb"


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    assert max(len(text) for text in collapse_redraws(b"x" * 65536 for _ in range(64))) <= (1 << 20) + 65536
    assert b"".join(collapse_redraws(b"x" * 65536 + b"\r" for _ in range(64))).count(b"x") == 65536


def test_texts() -> None:
    assert escape_controls("a\x1b\n\udc80é训") == "a\\x1b\\n\\udc80é训"
    assert (display_width("训练ab"), truncate("训练ab", 5), truncate("abc", 3)) == (6, "训练…", "abc")
    assert [format_clock(s) for s in (0, 42.9, 312, 5025, 183845)] == ["0:00", "0:42", "5:12", "1:23:45", "2-03:04:05"]
