"""The router's own answers: errors as JSON, with the seconds after which a client may try again."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final, NamedTuple

REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
RETRY_AFTER_S: Final = 1


class Refusal(NamedTuple):
    """An answer that the router gives instead of a replica."""

    status: int
    code: str
    message: str
    retry_after_s: int | None = None


def bad_request(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)


def body_too_large(max_bytes: int) -> Refusal:
    return Refusal(413, "body_too_large", f"the body is larger than {max_bytes:,} bytes")


def no_service(path: bytes) -> Refusal:
    shown = path[:80].decode("latin-1")
    hint = f"use /SERVICE{shown}" if shown.startswith("/v1/") else "GET /-/services lists the services"
    return Refusal(404, "no_such_service", f"no service at {shown}; {hint}")


def no_model(model: str) -> Refusal:
    return Refusal(404, "model_not_found", f"no service has the model {model[:80]!r}; GET /v1/models lists the models")


def no_model_in(path: bytes, why: str) -> Refusal:
    shown = path.partition(b"?")[0][:80].decode("latin-1")
    return bad_request(f"{why}; a request below /v1/ names its model in the body, or its service: /SERVICE{shown}")


def queue_full(waiting: int) -> Refusal:
    return Refusal(503, "queue_full", f"{waiting:,} requests wait already", RETRY_AFTER_S)


def queue_timeout(waited_s: float, why: str) -> Refusal:
    return Refusal(503, "queue_timeout", f"waited {waited_s:g} s: {why}", RETRY_AFTER_S)


def service_failed(reason: str) -> Refusal:
    return Refusal(503, "service_failed", f"no replica starts: {reason}", RETRY_AFTER_S)


ANSWER_TIMEOUT: Final = Refusal(504, "answer_timeout", "the replica did not answer in time")
REPLICA_FAILED: Final = Refusal(502, "replica_failed", "the replica closed the connection before it answered")
BAD_ANSWER: Final = Refusal(502, "bad_answer", "the replica's answer is not valid HTTP")
REQUEST_TIMEOUT: Final = Refusal(408, "request_timeout", "the request did not arrive in time")
HEAD_TOO_LARGE: Final = Refusal(431, "head_too_large", "the request line and headers are too large")
TOO_MANY_CONNECTIONS: Final = Refusal(503, "too_many_connections", "too many connections", RETRY_AFTER_S)
OVERLOADED: Final = Refusal(503, "out_of_buffers", "the router holds too many bodies", RETRY_AFTER_S)
MISDIRECTED: Final = Refusal(421, "unknown_host", "this host name is not served here; see weft router --allow-host")


def render_refusal(refusal: Refusal, *, service: str = "", request_id: bytes = b"", close: bool, head: bool) -> bytes:
    """Return the answer as bytes; with `head`, without its body."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    error = {"code": refusal.code, "message": refusal.message, "service": service, "type": kind}
    extra = b""
    if refusal.retry_after_s is not None:
        extra += b"Retry-After: %d\r\n" % refusal.retry_after_s
    if refusal.status == 401:
        extra += b"WWW-Authenticate: Bearer\r\n"
    if refusal.status == 405:
        extra += b"Allow: GET, HEAD\r\n"
    body = json.dumps({"error": error}).encode() + b"\n"
    return render_answer(
        refusal.status, b"application/json", body, request_id=request_id, close=close, head=head, extra=extra
    )


def render_answer(
    status: int,
    content_type: bytes,
    body: bytes,
    *,
    request_id: bytes = b"",
    close: bool,
    head: bool,
    extra: bytes = b"",
) -> bytes:
    """Return an answer of the router as bytes."""
    lines = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n" % (
        status, REASONS.get(status, b""), content_type, len(body),
    )  # fmt: skip
    if request_id:
        lines += b"X-Request-Id: %b\r\n" % request_id
    lines += extra + (b"Connection: close\r\n\r\n" if close else b"\r\n")
    return lines if head else lines + body
