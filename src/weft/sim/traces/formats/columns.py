"""Columns of Weft's format with several parts: shares, labels, pinned GPUs.

In text, `+` joins the parts. If a part contains a `+`, the cell is JSON.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, Final

from weft.inputs.csv import MIN_POSITIVE, Row
from weft.inputs.jsonl import CELL_SEPARATOR
from weft.model import WHOLE, Share, Slots
from weft.sim.traces.formats.draft import MAX_GPUS

_SHARE: Final = "a fraction of each GPU, above 0 and at most 1, or two of them: request+limit, the limit not below"
_LABELS: Final = "name=value, more of them joined with +, each name once"


def read_share(row: Row, column: str) -> Share:
    text = row.text(column)
    if not text:
        return WHOLE
    parts = [_fraction(part) for part in text.split(CELL_SEPARATOR)]
    if len(parts) > 2 or not MIN_POSITIVE <= parts[0] <= parts[-1] <= 1:
        raise row.error(column, _SHARE)
    return Share(parts[0], parts[-1])


def show_share(share: Share) -> object:
    if share == WHOLE:
        return None
    return share.request if share.request == share.limit else [share.request, share.limit]


def read_labels(row: Row, column: str) -> tuple[tuple[str, str], ...]:
    pairs = _label_pairs(row.text(column))
    if len({name for name, _ in pairs}) < len(pairs) or not all(map(_is_label, pairs)):
        raise row.error(column, _LABELS)
    return tuple(sorted(pairs))


def show_labels(labels: tuple[tuple[str, str], ...]) -> object:
    return dict(labels) or None


def read_pinned(row: Row, column: str, gpus: int) -> Slots:
    """Return the GPUs in rank order. The GPUs of one node must be adjacent."""
    text = row.text(column)
    if not text:
        return ()
    names = _json(text) if text.startswith("[") else _parts(text)
    seats = [_seat(name) for name in names] if isinstance(names, list) else []
    slots = tuple((node, tuple(gpu for _, gpu in those)) for node, those in groupby(seats, key=lambda seat: seat[0]))
    once = len(set(seats)) == len(seats) == gpus and len(dict(slots)) == len(slots)
    if not once or not all(node and gpu >= 0 for node, gpu in seats):
        raise row.error(column, f"{gpus} GPUs as node/number, such as n0/3, joined with +, those of a node together")
    return slots


def show_pinned(pinned: Slots) -> object:
    return [f"{node}/{gpu}" for node, gpus in pinned for gpu in gpus] or None


def _label_pairs(text: str) -> list[tuple[Any, Any]]:
    """Return the names and values. A malformed label has an empty name."""
    if text.startswith("{"):
        found = _json(text)
        return list(found.items()) if isinstance(found, dict) else [("", "")]
    split = [part.partition("=") for part in _parts(text)]
    return [(name.strip() if equals else "", value.strip()) for name, equals, value in split]


def _is_label(pair: tuple[object, object]) -> bool:
    return all(isinstance(text, str) and text.isprintable() for text in pair) and bool(pair[0])


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(CELL_SEPARATOR)] if text else []


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def _seat(name: object) -> tuple[str, int]:
    node, _, gpu = name.rpartition("/") if isinstance(name, str) else ("", "", "")
    known = gpu.isascii() and gpu.isdigit() and len(gpu) < len(str(MAX_GPUS)) and node.isprintable()
    return (node, int(gpu)) if known else ("", -1)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
