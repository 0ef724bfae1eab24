"""Convert facts to JSON and back, by tables built from the dataclass fields of `weft.model.FACTS`.

A fact is one object, `{"fact":"Started","at":3.0,"job":"a","run":1}`. Fields come in declared order, fields equal to
their default are left out, and all text is ASCII. Equal facts give equal bytes.
"""

from __future__ import annotations

import json
import types
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from weft.errors import JournalDamaged, JournalError, nearest
from weft.history.journal.base import Encoded
from weft.model import FACTS, Fact, PerRank

FORMAT: Final = 1
"""The number of the format. Increase it when a fact or field is renamed, removed or changes its meaning. A version that
meets an unknown fact or field asks for an upgrade whatever the number."""
CHECKSUM_CHARS: Final = len(',"crc":"01234567"}')

Pack = Callable[[Any], Any]
MAX_SHARED: Final = 4
"""Values of one field that are kept, to be shared by the next facts."""
_SHARED_ITEMS: Final = ((tuple[str, str], ...), (str, ...))
"""Texts and pairs of them: environments, params, commands."""
Converters = dict[type, Callable[[Any], Any] | None]
"""Converters of a field's value by its JSON type; None keeps the value. Other types are errors."""


def encode_line(fact: Fact | Encoded) -> str:
    """Return the fact as one line of JSON, without the newline. Raise JournalError if it cannot be journalled."""
    if type(fact) is Encoded:
        return fact.line
    try:
        line = _to_json({"fact": type(fact).__name__, **_PACK[type(fact)](fact)})
    except KeyError:
        raise JournalError(
            f"{_short(fact)} is not a fact: only the classes in weft.model.FACTS can be journalled"
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(
            f"{_short(fact)} cannot be journalled: {error}; numbers must be finite, everything else a plain value"
        ) from None
    if "\\ud" in line and decode_line(line) != fact:
        raise JournalError(
            f"{_short(fact)} cannot be journalled: its text holds a surrogate pair, which JSON would join"
        )
    return line


def decode_line(line: str) -> Fact:
    """Return the fact that `encode_line` wrote as this line."""
    try:
        body, end = _from_json(line)
    except (ValueError, RecursionError) as error:
        raise JournalError(f"not JSON: {error}") from None
    if end != len(line) and line[end:].strip():
        raise JournalError(f"not JSON: more than one value in the line, from column {end + 1}")
    return _decode_body(body)


def seal(fact: Fact | Encoded, position: int) -> str:
    """Return the fact as a journal stores it at a position: its line, with a checksum of line and position at its end.
    So a changed fact is found, and one that is missing, moved or there twice."""
    body = encode_line(fact)[:-1]
    return f'{body},"crc":"{zlib.crc32(body.encode(), position):08x}"}}'


def unseal(line: bytes, position: int) -> Fact:
    """Return the fact that `seal` stored at this position."""
    body = line[:-CHECKSUM_CHARS]
    if line[-10:-2] != b"%08x" % zlib.crc32(body, position):
        raise JournalDamaged("the fact is damaged: its checksum differs")
    return decode_line(body.decode("ascii", "replace") + "}")


def encode(fact: Fact) -> dict[str, Any]:
    """Return the fact as a dict of plain JSON values, as in its line."""
    return cast(dict[str, Any], json.loads(encode_line(fact)))


def decode(body: Mapping[str, Any]) -> Fact:
    """Return the fact that `encode` turned into this dict."""
    return _decode_body(dict(body))


def _decode_body(body: Any) -> Fact:
    """Convert a dict to its fact. The dict loses its key `fact`."""
    try:
        name = body.pop("fact")
    except (KeyError, TypeError, AttributeError):
        raise JournalError(f"a fact must be an object with its type under 'fact', not {_short(body)}") from None
    try:
        read = _READ[name]
    except (KeyError, TypeError):
        raise JournalError(f"unknown fact {_short(name)}\n  {_upgrade_hint(str(name), _BY_NAME)}") from None
    return cast(Fact, read(body))


def is_garbled(line: bytes) -> bool:
    """Return whether a line is not a JSON object, as an interrupted write leaves it."""
    try:
        return not isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return True


def check_format(found: object, where: str) -> None:
    """Raise JournalError for a journal format that this Weft cannot read."""
    if type(found) is not int or found < 1:
        raise JournalError(f"{where}: {found!r} is not a journal format; check that this is a Weft journal")
    if found != FORMAT:
        raise JournalError(
            f"{where}: written in journal format {found}, but this Weft reads format {FORMAT}\n"
            "  use the version of Weft that wrote it"
        )


_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_from_json = json.JSONDecoder().raw_decode


# ---- writing


def _packer(cls: type[Any]) -> Pack:
    hints = get_type_hints(cls)
    defaults = [(f.name, f.default) for f in fields(cls)]
    nested = [(name, inner) for name, _ in defaults if (inner := _packer_of(hints[name]))]

    def pack(value: Any) -> dict[str, Any]:
        # `is` before `==`: comparing dataclasses is slow, and most fields hold the default object itself
        body = {n: v for n, d in defaults if (v := getattr(value, n)) is not d and (d is MISSING or v != d)}
        for name, plain in nested:
            if name in body:
                body[name] = plain(body[name])
        return body

    return pack


def _packer_of(hint: Any) -> Pack | None:
    """Return the function that turns a value of this type into plain JSON; None if `json` encodes the type itself."""
    if hint is PerRank:
        return PerRank.plain
    if is_dataclass(hint):
        return _packer(cast(type[Any], hint))
    inner = next((pack for arg in get_args(hint) if (pack := _packer_of(arg))), None)
    if inner is None:
        return None
    if get_origin(hint) is tuple:
        return lambda values: [inner(value) for value in values]
    return lambda value: None if value is None else inner(value)


# ---- reading


def _reader(cls: type[Any]) -> Callable[[Mapping[str, Any]], Any]:
    hints = get_type_hints(cls)
    converters = {f.name: _converters(hints[f.name]) for f in fields(cls)}

    def read(body: Mapping[str, Any]) -> Any:
        found = {}
        name, value = "", None
        try:
            for name, value in body.items():
                convert = converters[name][type(value)]
                found[name] = value if convert is None else convert(value)
            return cls(**found)
        except (KeyError, ValueError):
            raise JournalError(_wrong_field(cls, name, value)) from None
        except TypeError:
            lacking = [f.name for f in fields(cls) if f.default is MISSING and f.name not in found]
            raise JournalError(f"{cls.__name__} lacks {', '.join(lacking)}") from None

    return read


def _converters(hint: Any) -> Converters:
    origin, args = get_origin(hint), get_args(hint)
    if hint is float:
        return {float: _finite, int: None}
    if hint in (str, int, bool, type(None)):
        return {hint: None}
    if hint is PerRank:
        figures = _list_reader({int: None})
        return {int: PerRank, list: lambda values: PerRank(*figures(values))}
    if is_dataclass(hint):
        return {dict: _reader(cast(type[Any], hint))}
    if origin is Literal:
        return {str: {arg: arg for arg in args}.__getitem__}
    if origin is tuple:
        items = [_converters(arg) for arg in args if arg is not ...]
        read = _list_reader(items[0]) if args[1:] == (...,) else _row_reader(items)
        return {list: _sharing(read) if args in _SHARED_ITEMS else read}
    if origin in (Union, types.UnionType):
        return {found: convert for arg in args for found, convert in _converters(arg).items()}
    raise TypeError(f"the journal cannot decode {hint!r}: add it to weft.history.journal.codec")


def _finite(value: float) -> float:
    if not isfinite(value):
        raise ValueError(value)
    return value


def _list_reader(converters: Converters) -> Callable[[list[Any]], tuple[Any, ...]]:
    return lambda values: tuple([v if (c := converters[type(v)]) is None else c(v) for v in values])


def _sharing(read: Callable[[list[Any]], tuple[Any, ...]]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return equal values as one object: all tasks of an array have the same environment, which may be large."""
    last: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def read_shared(values: list[Any]) -> tuple[Any, ...]:
        value = read(values)
        if value not in last:
            if len(last) >= MAX_SHARED:
                last.clear()
            last[value] = value
        return last.get(value, value)

    return read_shared


def _row_reader(row: list[Converters]) -> Callable[[list[Any]], tuple[Any, ...]]:
    def read(values: list[Any]) -> tuple[Any, ...]:
        return tuple([v if (c := r[type(v)]) is None else c(v) for r, v in zip(row, values, strict=True)])

    return read


# ---- error messages


def _wrong_field(cls: type[Any], name: str, value: object) -> str:
    known = [f.name for f in fields(cls)]
    if name in known:
        return f"{cls.__name__}.{name} cannot be {_short(value)}; it is declared as {cls.__annotations__[name]}"
    return f"{cls.__name__} has no field {_short(name)}\n  {_upgrade_hint(name, known)}"


def _upgrade_hint(name: str, known: Iterable[str]) -> str:
    return f"a newer Weft may have written it: upgrade; this one knows {', '.join(nearest(name, known))}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# ---- tables that make an entry at its first use: making all of them takes longer than a small command


class _Packers(dict[type, Pack]):
    def __missing__(self, cls: type) -> Pack:
        if _BY_NAME.get(cls.__name__) is not cls:
            raise KeyError(cls)
        made = self[cls] = _packer(cls)
        return made


class _Readers(dict[str, Callable[[Mapping[str, Any]], Any]]):
    def __missing__(self, name: str) -> Callable[[Mapping[str, Any]], Any]:
        made = self[name] = _reader(_BY_NAME[name])
        return made


_BY_NAME: Final = {cls.__name__: cls for cls in FACTS}
_PACK: Final = _Packers()
_READ: Final = _Readers()
