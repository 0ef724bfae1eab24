"""The methods of a service, as gRPC takes them up. Bytes that are no message are refused here, before anybody has to do
with them: gRPC would call that an error of the scheduler's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError

from weft.errors import InputError
from weft.server.api.rpc_errors import abort
from weft.wire.service import PREFIX, SERVICES, Kind

Method = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Garbled:
    """What came instead of a message of this type."""

    expected: str
    size: int = 0
    """Bytes, where there are too many of them to decode."""
    limit: int = 0

    def refuse(self) -> NoReturn:
        if self.size > self.limit:
            raise InputError(
                f"a {self.expected} of {self.size / 1e6:.1f} MB, and the scheduler accepts {self.limit / 1e6:.1f} MB",
                hint="send less at a time, and put large values into files",
            )
        raise InputError(
            f"what came is not a {self.expected}, but bytes that cannot be read",
            hint="bring both ends to the same version of Weft",
        )


def handler(of: Callable[[str], Method], service: str = "Scheduler") -> grpc.GenericRpcHandler:
    """What a server takes up; `of` gives the function of each method."""
    made = {}
    for name, method in SERVICES[service].items():
        wrap, take_up = _KINDS[method.kind]
        made[name] = take_up(
            wrap(of(name)), _reader(method.request, method.max_request_bytes), method.reply.SerializeToString
        )
    return grpc.method_handlers_generic_handler(PREFIX + service, made)


def _reader(kind: Any, limit: int) -> Callable[[bytes], Any]:
    def read(text: bytes) -> Any:
        if len(text) > limit:  # before anything decodes or walks it
            return Garbled(kind.DESCRIPTOR.name, len(text), limit)
        try:
            return kind.FromString(text)
        except DecodeError:
            return Garbled(kind.DESCRIPTOR.name)

    return read


async def _check(request: Any, context: Any) -> None:
    if isinstance(request, Garbled):
        try:
            request.refuse()
        except InputError as error:
            await abort(context, error)


def _unary(method: Method) -> Method:
    async def answer(request: Any, context: Any) -> Any:
        await _check(request, context)
        return await method(request, context)

    return answer


def _stream(method: Method) -> Method:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        await _check(request, context)
        async for reply in method(request, context):
            yield reply

    return answer


def _upload(method: Method) -> Method:
    """Whoever reads the stream is told by an InputError."""

    async def answer(requests: AsyncIterator[Any], context: Any) -> Any:
        return await method(_understood(requests), context)

    return answer


async def _understood(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, Garbled):
            request.refuse()
        yield request


_KINDS: Final[dict[Kind, tuple[Callable[[Method], Method], Callable[..., Any]]]] = {
    "unary": (_unary, grpc.unary_unary_rpc_method_handler),
    "stream": (_stream, grpc.unary_stream_rpc_method_handler),
    "upload": (_upload, grpc.stream_unary_rpc_method_handler),
    "both": (_upload, grpc.stream_stream_rpc_method_handler),
}
