"""All conversion between the wire's messages and the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from weft.wire.messages import Variable

Pairs = tuple[tuple[str, str], ...]


def pairs(variables: Iterable[Variable]) -> Pairs:
    return tuple((each.name, each.value) for each in variables)


def variables(named: Iterable[tuple[str, str]]) -> list[Variable]:
    return [Variable(name=name, value=value) for name, value in named]


def get(message: Message, name: str) -> Any:
    """Return a field as the model holds it: tuples, pairs, and None for what was not given."""
    field = message.DESCRIPTOR.fields_by_name[name]
    value = getattr(message, name)
    if field.is_repeated:
        return pairs(value) if field.message_type is Variable.DESCRIPTOR else tuple(value)
    return None if field.has_presence and not message.HasField(name) else value


def put(message: Message, name: str, value: Any) -> None:
    """Set a field from a value of the model; None leaves it out."""
    if value is None:
        return
    if not isinstance(value, list | tuple):
        setattr(message, name, value)
        return
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.message_type is Variable.DESCRIPTOR:
        getattr(message, name).extend(each if isinstance(each, Variable) else _variable(each) for each in value)
    else:
        getattr(message, name).extend(value)


def _variable(pair: tuple[str, str]) -> Variable:
    return Variable(name=pair[0], value=pair[1])
