"""gRPC handlers for the methods of a service. Undecodable requests get INVALID_ARGUMENT; gRPC would report INTERNAL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio

from weft.errors import InputError, WeftError
from weft.server.rpc.cut_off import cut_reason
from weft.server.rpc.errors import abort
from weft.server.rpc.requests import UnreadableRequest, reader
from weft.wire.service import PREFIX, SCHEDULER, SERVICES, Kind

Method = Callable[..., Any]


def handler(method_of: Callable[[str], Method], service: str = "Scheduler") -> grpc.GenericRpcHandler:
    """Return the handler of a service. `method_of` returns the function for the name of a method."""
    handlers = {}
    for name, method in SERVICES[service].items():
        wrap, make_handler = _KINDS[method.kind]
        handlers[name] = make_handler(wrap(method_of(name)), reader(method), method.reply.SerializeToString)
    return grpc.method_handlers_generic_handler(PREFIX + service, handlers)


def scheduler_handler(methods: Mapping[str, Callable[[Any], Any]]) -> grpc.GenericRpcHandler:
    """Return the handler of methods that take no gRPC context. Their WeftErrors become statuses."""
    adapted = {name: _WITHOUT_CONTEXT[SCHEDULER[name].kind](method) for name, method in methods.items()}
    return handler(adapted.__getitem__)


def _unary_without_context(method: Callable[[Any], Any]) -> Method:
    async def answer(request: Any, context: Any) -> Any:
        try:
            return await method(request)
        except WeftError as error:
            await abort(context, error)

    return answer


def _stream_without_context(method: Callable[[Any], Any]) -> Method:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for reply in method(request):
                yield reply
        except WeftError as error:
            await abort(context, error)

    return answer


_WITHOUT_CONTEXT: Final = {"unary": _unary_without_context, "stream": _stream_without_context}


@asynccontextmanager
async def _cut_off_with_reason(context: Any) -> AsyncIterator[None]:
    """Send the client the reason why its call is cut off. A task that is only cancelled sends it nothing at all."""
    try:
        yield
    except asyncio.CancelledError:
        if (reason := cut_reason()) is None:
            raise
        try:
            await abort(context, reason)
        except grpc.aio.InternalError:  # the client has left meanwhile
            raise asyncio.CancelledError from None


async def _abort_if_unreadable(request: Any, context: Any) -> None:
    if isinstance(request, UnreadableRequest):
        try:
            request.refuse()
        except InputError as error:
            await abort(context, error)


def _unary(method: Method) -> Method:
    async def answer(request: Any, context: Any) -> Any:
        await _abort_if_unreadable(request, context)
        async with _cut_off_with_reason(context):
            return await method(request, context)

    return answer


def _stream(method: Method) -> Method:
    async def answer(request: Any, context: Any) -> None:
        await _abort_if_unreadable(request, context)
        async with _cut_off_with_reason(context), aclosing(method(request, context)) as replies:
            async for reply in replies:
                await context.write(reply)

    return answer


def _upload(method: Method) -> Method:
    """Wrap a method that reads a stream. An unreadable request raises an InputError where the method reads it."""

    async def answer(requests: AsyncIterator[Any], context: Any) -> Any:
        async with _cut_off_with_reason(context):
            return await method(_decoded(requests), context)

    return answer


async def _decoded(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, UnreadableRequest):
            request.refuse()
        yield request


_KINDS: Final[dict[Kind, tuple[Callable[[Method], Method], Callable[..., Any]]]] = {
    "unary": (_unary, grpc.unary_unary_rpc_method_handler),
    "stream": (_stream, grpc.unary_stream_rpc_method_handler),
    "upload": (_upload, grpc.stream_unary_rpc_method_handler),
    "both": (_upload, grpc.stream_stream_rpc_method_handler),
}
