"""The operations of Dilu's interface on a scheduler of Weft."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from weft.client import Client
from weft.client.services import describe, find_service
from weft.endpoints.addresses import Address
from weft.errors import InputError, UnknownName
from weft.jobspec.environment import capture
from weft.jobspec.fields import spec_of
from weft.jobspec.python import as_text
from weft.router.dilu import translation
from weft.router.dilu.translation import Task
from weft.wire.messages import ServiceChange, SubmitRequest

MAX_REGISTERED: Final = 10_000


class Control:
    """Schedules, deletes and registers. One call at a time: counts of instances must not race."""

    def __init__(self, connect: Callable[[], Client], scheduler: Address | None) -> None:
        self._connect, self._scheduler = connect, scheduler
        self._registered: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def register(self, task: Task) -> dict[str, Any]:
        """Remember the scaling figures of a service for its next instance."""
        name = translation.name_of(task)
        with self._lock:
            if len(self._registered) >= MAX_REGISTERED and name not in self._registered:
                raise InputError("too many services are registered", hint="restart weft router")
            self._registered[name] = dict(task)
        return {"service_name": name, "status": "registered"}

    def schedule(self, task: Task) -> dict[str, Any]:
        """Start a training job, or one more instance of a service."""
        with self._lock, self._connect() as client:
            if translation.is_training(task):
                return self._submit(client, task)
            name = translation.name_of(task)
            known = find_service(client, name)
            instances = 1 if known is None else known.min_replicas + 1
            text = json.dumps(translation.service_of(task, self._registered.get(name, {}), instances))
            found = client.deploy(describe(text, "/schedule", self._scheduler))
            return {
                "service_name": name, "instance_id": f"{name}/{instances}", "instances": instances, "url": found.url,
                "status": found.outcome,
            }  # fmt: skip

    def _submit(self, client: Client, task: Task) -> dict[str, Any]:
        env = capture(os.environ, elsewhere=self._scheduler is not None)
        spec = spec_of(as_text(translation.job_of(task)))
        (job,) = client.submit(SubmitRequest(jobs=[spec], env=env, chdir=os.getcwd()))
        return {"service_name": translation.name_of(task), "instance_id": job, "status": "submitted"}

    def delete(self, task: Task) -> dict[str, Any]:
        """End a training job, or one instance of a service; the last one ends the service."""
        instance = task.get("instance_id", task.get("service_name"))
        if not isinstance(instance, str) or not instance:
            raise InputError("instance_id is missing", hint="the one that /schedule returned")
        name = instance.rpartition("/")[0] or instance
        with self._lock, self._connect() as client:
            known = find_service(client, name)
            if known is None:
                if "/" in instance:
                    raise UnknownName("service", name[:80], [each.name for each in client.services().services])
                client.change("cancel", [instance])
                return {"instance_id": instance, "status": "deleted"}
            left = known.min_replicas - 1
            if left < 1:
                client.change_service(ServiceChange(service=name, verb="undeploy"))
            else:
                change = ServiceChange(
                    service=name, verb="scale", min_replicas=left, max_replicas=max(known.max_replicas, left)
                )
                client.change_service(change)
        return {"instance_id": instance, "instances": max(left, 0), "status": "deleted"}
