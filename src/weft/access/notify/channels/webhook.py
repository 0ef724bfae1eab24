"""POST a message as JSON. Redirects are not followed: they could lead to an address that is not allowed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO, Any

from weft.access.notify.delivery import NotDelivered, http_problem
from weft.access.notify.targets import Target, secret_of
from weft.version import VERSION


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Return no new request: the answer counts as it is."""


def send(target: Target, message: dict[str, Any], timeout_s: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": f"weft/{VERSION}", "Idempotency-Key": message["id"]}
    if target.options.get("token_file"):
        headers["Authorization"] = f"Bearer {secret_of(target.options['token_file'])}"
    body = json.dumps(message).encode()
    try:
        request = urllib.request.Request(target.options["url"], body, headers, method="POST")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout_s) as answer:
            status, retry_after = answer.status, None
    except urllib.error.HTTPError as error:
        status, retry_after = error.code, error.headers.get("Retry-After")
        error.close()
    except urllib.error.URLError as error:
        raise NotDelivered(str(error.reason)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotDelivered(f"{type(error).__name__}: {error}") from None
    if (problem := http_problem(status, retry_after)) is not None:
        raise problem
