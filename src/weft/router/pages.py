"""The router's own pages: services, metrics, health, and the list of models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from weft.router.rules.target import MODEL_LIST, Target

if TYPE_CHECKING:
    from weft.router.app import Router

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"
Page = tuple[int, bytes, bytes]
"""A status, a content type and a body."""


class Pages:
    """Answers requests that are for the router itself."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def answer(self, target: Target) -> Page:
        """Return the page at a path."""
        path = target.target
        if target.kind == "models":
            return self._models(path)
        if path == b"/-/healthz":
            return 200, TEXT, b"ok\n"
        if path == b"/-/services":
            return _json(200, {"services": self._services(), "table": self._router.table.number})
        if path == b"/-/metrics":
            from weft.router.metrics import render_metrics

            return 200, PROMETHEUS, render_metrics(self._router)
        message = "the pages are /-/services, /-/metrics and /-/healthz"
        return _json(
            404, {"error": {"code": "no_such_page", "message": message, "service": "", "type": "invalid_request_error"}}
        )

    def _services(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for service in self._router.services.values():
            load = service.load()
            replicas = [
                {"name": each.name, "address": str(service.pools[each].address), "outstanding": each.outstanding,
                 "concurrency": each.concurrency, "weight": each.weight, "draining": each.draining,
                 "ejected": each.health.is_out(), "answered": each.health.answered, "errors": each.health.errors,
                 "failures": each.health.failures, "last_error": each.health.last_error}
                for each in service.dispatcher.replicas.values()
            ]  # fmt: skip
            found.append(
                {"service": service.name, "path": f"/{service.name}/", "hosts": list(service.route.hosts),
                 "models": list(service.route.models), "arrivals": load.arrivals, "answered": load.answered,
                 "in_flight": load.in_flight, "queued": load.queued, "ready": load.ready, "replicas": replicas}
            )  # fmt: skip
        return found

    def _models(self, path: bytes) -> Page:
        models = self._router.models
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": each.name} for name, each in models.items()]
        if path == MODEL_LIST:
            return _json(200, {"object": "list", "data": listed})
        wanted = path[len(MODEL_LIST) + 1 :].decode("utf-8", "replace")
        for model in listed:
            if model["id"] == wanted:
                return _json(200, model)
        message = f"no service has the model {wanted[:80]!r}; GET /v1/models lists the models"
        error = {"code": "model_not_found", "message": message, "service": "", "type": "invalid_request_error"}
        return _json(404, {"error": error})


def _json(status: int, value: object) -> Page:
    return status, JSON, json.dumps(value).encode() + b"\n"
