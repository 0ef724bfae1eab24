"""YAML values that know their file and line. Parsing is strict, and safe for untrusted input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import yaml

from weft.errors import InputError, UnknownName
from weft.inputs.csv import MAX_NUMBER, shorten
from weft.inputs.quantities import parse_whole_or_none

_TAG: Final = "tag:yaml.org,2002:"
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]*")
"""Not 010, which is octal in YAML."""
_KINDS: Final[dict[type[yaml.Node], str]] = {yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value of a YAML document, with its position."""

    node: yaml.Node
    file: str
    key: str = ""
    """The path from the root, such as `nodes[0].gpus`."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.node.start_mark.line + 1}"

    def error(self, what: str, hint: str) -> InputError:
        return InputError(what, where=self.where, hint=hint)

    def expected(self, what: str) -> InputError:
        found = _KINDS.get(type(self.node)) or (shorten(self.node.value) if self.node.value else "nothing")
        return self.error(f"bad {self.key}: {found}" if self.key else f"not {what}", f"expected {what}, found {found}")

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Give errors within the block the place of this value."""
        try:
            yield
        except InputError as error:
            raise error.at(where=self.where) from None

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def mapping(self, what: str, known: tuple[str, ...] | None = None) -> YamlMapping:
        """Return the keys and values of a mapping; with `known`, raise UnknownName for any other key."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.expected(f"a mapping ({what})")
        entries: dict[str, YamlValue] = {}
        for key_node, value in self.node.value:
            key = YamlValue(key_node, self.file)
            name = key.text()
            if name in entries:
                raise key.error(f"key {shorten(name)} occurs twice", f"give each key of {what} once")
            if known is not None and name not in known:
                raise UnknownName(f"key of {what}", name[:80], known, where=key.where)
            entries[name] = YamlValue(value, self.file, f"{self.key}.{name[:80]}" if self.key else name[:80])
        return YamlMapping(self, what, entries)

    def items(self, what: str) -> tuple[YamlValue, ...]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.expected(what)
        return tuple(YamlValue(node, self.file, f"{self.key}[{at}]") for at, node in enumerate(self.node.value))

    def text(self) -> str:
        """Return a scalar as it is written: `no`, `1.10` and `4090` are text here, whatever their YAML type."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag == _TAG + "null":
            raise self.expected("text")
        if not self.node.value.isprintable():
            raise self.expected("text without control characters")
        return str(self.node.value)

    def whole(self, *, low: int = 0, high: int = MAX_NUMBER) -> int:
        is_decimal = self.node.tag == _TAG + "int" and _DECIMAL.fullmatch(self.node.value)
        value = parse_whole_or_none(self.node.value, low, high) if is_decimal else None
        if value is None:
            raise self.expected(f"a whole number from {low:,} to {high:,}")
        return value


@dataclass(frozen=True, slots=True)
class YamlMapping:
    value: YamlValue
    what: str
    entries: dict[str, YamlValue]

    def get(self, key: str) -> YamlValue | None:
        return self.entries.get(key)

    def require(self, key: str) -> YamlValue:
        if key not in self.entries:
            found = ", ".join(self.entries) or "nothing"
            raise self.value.error(f"{self.what} needs {key!r}", f"expected a key {key!r}, found {found}")
        return self.entries[key]

    def text(self, key: str, default: str) -> str:
        value = self.entries.get(key)
        return default if value is None else value.text()

    def whole(self, key: str, default: int, *, low: int = 0, high: int = MAX_NUMBER) -> int:
        value = self.entries.get(key)
        return default if value is None else value.whole(low=low, high=high)


class _NotAccepted(yaml.MarkedYAMLError):
    """Valid YAML that Weft does not accept."""


class _Loader(yaml.SafeLoader):
    """A loader without aliases and tags: a few lines of aliases can expand to billions of nodes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:
            raise _NotAccepted(
                context="repeat the value instead",
                problem="anchors (&name) and aliases (*name) are not accepted",
                problem_mark=event.start_mark,
            )
        if getattr(event, "tag", None) is not None:
            raise _NotAccepted(
                context="remove the tag",
                problem=f"tags are not accepted: {shorten(event.tag)}",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)


def parse_yaml(text: str, file: str) -> YamlValue:
    """Return the root of the document, or raise InputError with the line at fault."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1 if mark else 1}"
        if isinstance(error, _NotAccepted):
            raise InputError(str(error.problem), where=where, hint=str(error.context)) from None
        hint = f"{error.context or 'expected one YAML document'}; look at indentation, colons, quotes and brackets"
        raise InputError(f"not YAML: {error.problem}", where=where, hint=hint) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError("not YAML: a control character", where=f"{file}:{line}", hint="remove it") from None
    except RecursionError:
        raise InputError("nested too deeply", where=f"{file}:1", hint="expected a mapping of lists") from None
    if root is None:
        raise InputError("an empty file", where=f"{file}:1", hint="expected YAML such as nodes: [{count: 4, gpus: 8}]")
    return YamlValue(root, file)
