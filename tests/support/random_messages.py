"""Messages with anything in them: small numbers and known names more often than others, so that something comes of
them."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

Texts = st.SearchStrategy[str]
FLOATS = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 100.0, -1.0, float("nan"), float("inf")]), st.floats())
Field = FieldDescriptor
INTS = {
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}


def texts(*known: str) -> Texts:
    return st.one_of(st.sampled_from(known), st.text(max_size=8))


@st.composite
def messages(draw: st.DrawFn, kind: type[Message], words: Texts) -> Any:
    """Any message of this type."""
    made = kind()
    oneof = [field.name for one in kind.DESCRIPTOR.oneofs if one.name == "is" for field in one.fields]
    chosen = draw(st.sampled_from([*oneof, ""])) if oneof else None
    for field in kind.DESCRIPTOR.fields:
        if (chosen is not None and field.name != chosen) or (chosen is None and draw(st.integers(0, 3)) == 0):
            continue
        count = draw(st.integers(0, 3)) if field.is_repeated else 1
        values = [draw(_value(field, words)) for _ in range(count)]
        if field.is_repeated:
            getattr(made, field.name).extend(values)
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(values[0])
        else:
            setattr(made, field.name, values[0])
    return made


def _value(field: Any, words: Texts) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type), words)
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.cpp_type in INTS:
        low, high = INTS[field.cpp_type]
        return st.one_of(st.integers(0, 3), st.integers(low, high))
    if field.cpp_type in (Field.CPPTYPE_DOUBLE, Field.CPPTYPE_FLOAT):
        return FLOATS
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return st.booleans()
    return st.binary(max_size=8) if field.type == Field.TYPE_BYTES else words


@st.composite
def bent(draw: st.DrawFn, right: Message, words: Texts) -> Any:
    """A message that is right, but for a field or two."""
    made = type(right)()
    made.CopyFrom(right)
    fields: list[Any] = list(made.DESCRIPTOR.fields)
    for field in draw(st.lists(st.sampled_from(fields), max_size=2)):
        made.ClearField(field.name)
        if field.is_repeated:
            getattr(made, field.name).extend(draw(st.lists(_value(field, words), max_size=3)))
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(draw(bent(getattr(right, field.name), words)))
        else:
            setattr(made, field.name, draw(_value(field, words)))
    return made
