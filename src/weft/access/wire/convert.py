"""All conversion between the messages of the wire and the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from weft.access.wire.messages import NodeSpec, StageProfile, Variable

if TYPE_CHECKING:
    from weft.model import Node, Profile

Pairs = tuple[tuple[str, str], ...]


def pairs(variables: Iterable[Variable]) -> Pairs:
    return tuple((each.name, each.value) for each in variables)


def variables(named: Iterable[tuple[str, str]]) -> list[Variable]:
    return [Variable(name=name, value=value) for name, value in named]


def get(message: Message, name: str) -> Any:
    """Return a field as the model holds it: tuples, pairs, and None if the field is not set."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):
        return None
    convert, value = converter(field), getattr(message, name)
    return value if convert is None else convert(value)


def converter(field: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts values of a field, given its descriptor; None: they stay as they are."""
    if not field.is_repeated:
        return profile_of if field.message_type is StageProfile.DESCRIPTOR else None
    return pairs if field.message_type is Variable.DESCRIPTOR else tuple


def put(message: Message, name: str, value: Any) -> None:
    """Set a field from a value of the model; None leaves it unset."""
    if value is None:
        return
    if isinstance(value, Message):
        getattr(message, name).CopyFrom(value)
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


def profile_of(message: StageProfile) -> Profile:
    from weft.model import Profile  # few jobs have one

    return Profile(
        message.model, message.iteration_s, message.data_s, message.gpu_s, message.network_s, message.start_s,
        message.memory_mb,
    )  # fmt: skip


def stage_profile(profile: Profile) -> StageProfile:
    return StageProfile(
        model=profile.model, iteration_s=profile.iteration_s, data_s=profile.data_s, gpu_s=profile.gpu_s,
        network_s=profile.network_s, start_s=profile.start_s, memory_mb=profile.memory_mb,
    )  # fmt: skip


def node_of(spec: NodeSpec, disk_id: str, now: float | None = None) -> Node:
    """Return a registered node as the core sees it. Its name is one of its labels.

    Without `now`, its end is left out.
    """
    from weft.model import Gpu, Node  # clients convert no nodes

    return Node(
        spec.id,
        tuple(Gpu(gpu.model, gpu.memory_mb) for gpu in spec.gpus),
        cpus=spec.cpus,
        ram_mb=spec.ram_mb,
        switch=spec.switch,
        labels=(("node", spec.id), *(pair for pair in pairs(spec.labels) if pair[0] != "node")),
        disk_id=disk_id,
        until=None if now is None or not spec.HasField("ends_in_s") else float(int(now + spec.ends_in_s)),
    )
