"""gRPC handlers for the methods of a service. They decode requests themselves: those that cannot be decoded get
INVALID_ARGUMENT with a hint, where gRPC would report INTERNAL, and large ones are checked first, in slices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

import grpc
import grpc.aio

from weft.access.wire.service import PREFIX, SCHEDULER, SERVICES, Kind, Method
from weft.errors import WeftError
from weft.server.rpc.cut_off import cut_reason
from weft.server.rpc.errors import abort
from weft.server.rpc.requests import decode

Answer = Callable[..., Any]
"""A function that answers a request, or a stream of them."""


def handler(method_of: Callable[[str], Answer], service: str = "Scheduler") -> grpc.GenericRpcHandler:
    """Return the handler of a service. `method_of` returns the function for the name of a method."""
    handlers = {}
    for name, method in SERVICES[service].items():
        wrap, make_handler = _KINDS[method.kind]
        handlers[name] = make_handler(wrap(method, method_of(name)), None, method.reply.SerializeToString)
    return grpc.method_handlers_generic_handler(PREFIX + service, handlers)


def scheduler_handler(methods: Mapping[str, Callable[[Any], Any]]) -> grpc.GenericRpcHandler:
    """Return the handler of methods that take no gRPC context. Their WeftErrors become statuses."""
    adapted = {name: _WITHOUT_CONTEXT[SCHEDULER[name].kind](method) for name, method in methods.items()}
    return handler(adapted.__getitem__)


def _unary_without_context(method: Callable[[Any], Any]) -> Answer:
    async def answer(request: Any, context: Any) -> Any:
        try:
            return await method(request)
        except WeftError as error:
            await abort(context, error)

    return answer


def _stream_without_context(method: Callable[[Any], Any]) -> Answer:
    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for reply in method(request):
                yield reply
        except WeftError as error:
            await abort(context, error)

    return answer


_WITHOUT_CONTEXT: Final = {"unary": _unary_without_context, "stream": _stream_without_context}


def _forget_frames(error: BaseException | None) -> None:
    while error is not None:
        error.__traceback__ = None
        error.__context__, error = None, error.__context__


@asynccontextmanager
async def _cut_off_with_reason(context: Any) -> AsyncIterator[None]:
    """Send the client the reason why its call is cut off. A task that is only cancelled sends it nothing at all."""
    try:
        yield
    except grpc.aio.AbortError as error:
        # gRPC raises it again, and refers to it: its frames would keep the request until a full garbage collection
        _forget_frames(error)
    except asyncio.CancelledError:
        if (reason := cut_reason()) is None:
            raise
        try:
            await abort(context, reason)
        except grpc.aio.InternalError:  # the client has left meanwhile
            raise asyncio.CancelledError from None


def _unary(method: Method, answer: Answer) -> Answer:
    async def handle(content: bytes, context: Any) -> Any:
        async with _cut_off_with_reason(context):
            return await answer(await _decoded(method, content, context), context)

    return handle


def _stream(method: Method, answer: Answer) -> Answer:
    async def handle(content: bytes, context: Any) -> None:
        async with _cut_off_with_reason(context):
            request = await _decoded(method, content, context)
            async with aclosing(answer(request, context)) as replies:
                async for reply in replies:
                    await context.write(reply)

    return handle


async def _decoded(method: Method, content: bytes, context: Any) -> Any:
    try:
        return await decode(method, content)
    except WeftError as error:
        await abort(context, error)


def _upload(method: Method, answer: Answer) -> Answer:
    """Wrap a method that reads a stream. A malformed request raises an InputError where the method reads it."""

    async def handle(requests: AsyncIterator[bytes], context: Any) -> Any:
        async with _cut_off_with_reason(context):
            parts = _all_decoded(method, requests)
            try:
                return await answer(parts, context)
            finally:
                with suppress(RuntimeError):  # another call reads them: it ends them, too
                    await parts.aclose()

    return handle


async def _all_decoded(method: Method, requests: AsyncIterator[bytes]) -> AsyncGenerator[Any, None]:
    contents: Any = aiter(requests)  # gRPC complains about an iterator that is made and not read
    async with aclosing(contents):  # it refers to itself, and to the last message
        async for content in contents:
            yield await decode(method, content)


_KINDS: Final[dict[Kind, tuple[Callable[[Method, Answer], Answer], Callable[..., Any]]]] = {
    "unary": (_unary, grpc.unary_unary_rpc_method_handler),
    "stream": (_stream, grpc.unary_stream_rpc_method_handler),
    "upload": (_upload, grpc.stream_unary_rpc_method_handler),
    "both": (_upload, grpc.stream_stream_rpc_method_handler),
}
