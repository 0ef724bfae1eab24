"""Kubernetes: an allocation is a `batch/v1` Job of one pod, through `kubectl`. Kueue may admit it.

Eviction, drain and preemption end a pod by SIGTERM, upon which its worker leaves in order.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.model.pool import Pool
from weft.server.pools.pilot import shell_script
from weft.server.pools.provider import AllocationSpec, AllocationStatus, ProviderError, Site, cut, run

GRACE_MARGIN_S: Final = 10
KEPT_S: Final = 600
"""Kubernetes removes an ended job after this time; until then its state and log can be read."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,100})=[A-Za-z0-9]?[A-Za-z0-9._-]{0,62}")


class Kubernetes:
    title = "Kubernetes"

    def __init__(self, site: Site, pool: Pool) -> None:
        self._cluster = site.cluster.lower()
        context, namespace = pool.setting("context"), pool.setting("namespace")
        self._kubectl = ["kubectl", *(["--context", context] if context else [])]
        self._kubectl += ["--namespace", namespace] if namespace else []

    def request(self, allocation: AllocationSpec) -> str:
        text = json.dumps(self.manifest(allocation))
        return run([*self._kubectl, "create", "-f", "-", "-o", "name"], stdin=text).strip().rpartition("/")[2]

    def release(self, id: str) -> None:
        run([*self._kubectl, "delete", "job", id, "--ignore-not-found", "--wait=false"])

    def observe(self) -> Sequence[AllocationStatus]:
        found = json.loads(
            run([*self._kubectl, "get", "jobs,pods", "-l", f"weft/cluster={self._cluster}", "-o", "json"]) or "{}"
        )
        items = found.get("items") or []
        pods = {_label(item, "weft/key"): item for item in items if item.get("kind") == "Pod"}
        return [_status(item, pods.get(_label(item, "weft/key"))) for item in items if item.get("kind") == "Job"]

    def check(self, allocation: AllocationSpec) -> None:
        """Let the API server judge the manifest without creating it."""
        text = json.dumps(self.manifest(allocation))
        run([*self._kubectl, "create", "--dry-run=server", "-f", "-", "-o", "name"], stdin=text)

    def script(self, allocation: AllocationSpec) -> str:
        return json.dumps(self.manifest(allocation), indent=2)

    def log(self, allocation: AllocationSpec, id: str) -> str:  # noqa: ARG002
        return cut(run([*self._kubectl, "logs", f"job/{id}", "--tail", "20"]))

    def manifest(self, allocation: AllocationSpec) -> dict[str, Any]:
        """Return the job. `options` are labels of its nodes, or JSON objects that are merged into the pod's spec."""
        pool, queue = allocation.pool, allocation.pool.setting("queue-name")
        labels = {"weft/cluster": self._cluster, "weft/pool": pool.name, "weft/key": allocation.key}
        pod = self._pod(allocation)
        for option in pool.options:
            _merge(pod, _pod_option(option))
        spec: dict[str, Any] = {
            "backoffLimit": 0,
            "activeDeadlineSeconds": math.ceil(pool.time_s),
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        metadata: dict[str, Any] = {"name": f"weft-{self._cluster}-{allocation.key}", "labels": dict(labels)}
        if queue:  # Kueue starts it
            spec["suspend"] = True
            metadata["labels"][QUEUE_LABEL] = queue
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def _pod(self, allocation: AllocationSpec) -> dict[str, Any]:
        pool = allocation.pool
        begin = f"ends=$(($(date +%s) + {math.floor(pool.time_s)}))\n"
        more = ' --ends-at "$ends" --addr "$POD_IP:0"'
        # a pod sees its own GPUs alone, so the driver knows them
        script = shell_script(allocation, slot=shlex.quote(allocation.slot), begin=begin, more=more, gpus="")
        limits = {"nvidia.com/gpu": str(pool.gpus)} if pool.gpus else {}
        limits |= {"cpu": str(pool.cpus)} if pool.cpus else {}
        limits |= {"memory": f"{pool.ram_mb}Mi"} if pool.ram_mb else {}
        worker = {
            "name": "worker",
            "image": pool.setting("image"),
            "command": ["sh", "-c", script],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "resources": {"limits": limits},
            "volumeMounts": [{"name": "pool", "mountPath": allocation.folder}],
        }
        return {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": math.ceil(pool.leave_grace_s) + GRACE_MARGIN_S,
            "containers": [worker],
            "volumes": [{"name": "pool", "persistentVolumeClaim": {"claimName": pool.setting("volume")}}],
        }


def _pod_option(option: str) -> dict[str, Any]:
    if option.startswith("{"):
        try:
            found = json.loads(option)
        except ValueError as error:
            raise ProviderError(f"option {option[:80]!r} is not JSON: {error}") from None
        return dict(found)
    if not _LABEL.fullmatch(option):
        raise ProviderError(
            f"option {option[:80]!r} is neither NAME=VALUE nor a JSON object\n"
            """  a label of nodes such as gpu=a100, or a part of the pod's spec such as '{"hostNetwork": true}'"""
        )
    name, _, value = option.partition("=")
    return {"nodeSelector": {name: value}}


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _label(item: Mapping[str, Any], name: str) -> str:
    return str((item.get("metadata", {}).get("labels") or {}).get(name, ""))


def _status(job: Mapping[str, Any], pod: Mapping[str, Any] | None) -> AllocationStatus:
    key, id, status = _label(job, "weft/key"), job["metadata"]["name"], job.get("status") or {}
    done = [each for each in status.get("conditions") or () if each.get("status") == "True"]
    for each in done:
        if each.get("type") in ("Complete", "Failed"):
            return AllocationStatus(key, id, "ended", str(each.get("reason") or each["type"]))
    if job.get("spec", {}).get("suspend"):
        return AllocationStatus(key, id, "pending", "Suspended", "Suspended")
    phase = (pod or {}).get("status", {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return AllocationStatus(key, id, "ended", str(phase))
    if phase == "Running":
        return AllocationStatus(key, id, "running", "Running")
    return AllocationStatus(key, id, "pending", str(phase or "Pending"), _why_pending(pod or {}))


def _why_pending(pod: Mapping[str, Any]) -> str:
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or ():
        if reason := (container.get("state", {}).get("waiting") or {}).get("reason"):
            return str(reason)
    for condition in status.get("conditions") or ():
        if condition.get("status") == "False" and condition.get("reason"):
            return str(condition["reason"])
    return ""
