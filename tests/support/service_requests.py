"""Requests to a service, one after the other, and what became of them."""

from __future__ import annotations

import threading
import time
import urllib.request
from http.client import HTTPException


def get(url: str, timeout_s: float = 30.0) -> str:
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        return str(answer.read().decode())


def answer_or_nothing(url: str) -> str:
    """Return the answer; empty if the connection breaks, as it may while a router dies."""
    try:
        return get(url)
    except (OSError, HTTPException):
        return ""


class Requests:
    """Requests one after the other, in a thread, and what became of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[str] = []
        self.failures: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def _send(self) -> None:
        while not self._ended.is_set():
            try:
                self.answers.append(get(self.url))
            except (OSError, HTTPException) as error:
                self.failures.append(str(error))
            time.sleep(0.02)

    def __enter__(self) -> Requests:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60.0)
