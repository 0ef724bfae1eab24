"""Pools of Kubernetes, with a stand-in `kubectl` on PATH: what it is asked for, and what its answers mean.

The manifests are checked with the models of the Kubernetes API; no cluster has run them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.running.loopback_namespace import needed
from weft.model import Pool
from weft.server.pools.kubernetes import Kubernetes
from weft.server.pools.provider import AllocationSpec, AllocationStatus, ProviderError, Site

SITE = Site("0a1b2c", "head:50051", False, ("python", "-m", "weft"))
POOL = Pool(
    "k8s", "kubernetes", 8, 4, 3600.5, "H100", 81559, 64, 512_000, leave_grace_s=20.0,
    settings=(("image", "weft:1"), ("volume", "shared"), ("namespace", "ml"), ("context", "prod")),
)  # fmt: skip
KUBECTL = """\
#!/bin/sh
echo "$@" >> {root}/calls
case "$*" in
  *create*) cat > {root}/manifest; echo job.batch/created ;;
  *get*) cat {root}/answer ;;
  *logs*) echo "worker: no GPU" ;;
  *delete*) ;;
esac
"""


def spec(pool: Pool = POOL) -> AllocationSpec:
    return AllocationSpec("k8s-0-abc", "k8s-0", pool, SITE, "/shared/k8s")


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kubectl").write_text(KUBECTL.format(root=tmp_path))
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize(
    "pool",
    [
        POOL,
        replace(POOL, settings=(*POOL.settings, ("queue-name", "team"))),
        replace(POOL, gpus=0, cpus=0, ram_mb=0),
        replace(
            POOL, options=("gpu=h100", '{"hostNetwork": true, "tolerations": [{"key": "gpu", "operator": "Exists"}]}')
        ),
    ],
    ids=["plain", "queue", "no GPUs", "options"],
)
def test_manifests_are_jobs_of_the_kubernetes_api(pool: Pool) -> None:
    needed("the kubernetes package", find_spec("kubernetes") is not None, "make test installs it")
    from kubernetes.client import ApiClient

    manifest = Kubernetes(SITE, pool).manifest(spec(pool))
    client: Any = ApiClient()
    read = client.deserialize(json.dumps(manifest), "V1Job", "application/json")
    assert client.sanitize_for_serialization(read) == manifest, "every field is one of the API, none is lost"


def test_a_job_runs_one_worker_for_as_long_as_the_pool_says() -> None:
    manifest = Kubernetes(SITE, POOL).manifest(spec())
    job, pod = manifest["spec"], manifest["spec"]["template"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"], pod["restartPolicy"]) == (0, 3601, "Never")
    assert pod["terminationGracePeriodSeconds"] == 30
    (worker,) = pod["containers"]
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512000Mi"}
    assert "--pilot" in worker["command"][2]
    assert "--id k8s-0 " in worker["command"][2]
    assert "--gpus" not in worker["command"][2], "a pod sees its own GPUs alone"
    assert "suspend" not in job


def test_a_queue_of_kueue_admits_the_job() -> None:
    pool = replace(POOL, settings=(*POOL.settings, ("queue-name", "team")))
    manifest = Kubernetes(SITE, pool).manifest(spec(pool))
    assert manifest["spec"]["suspend"] is True
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


def test_options_are_node_labels_or_parts_of_the_pod() -> None:
    pool = replace(POOL, options=("cloud.example/gpu=h100", '{"hostNetwork": true}'))
    pod = Kubernetes(SITE, pool).manifest(spec(pool))["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["hostNetwork"]) == ({"cloud.example/gpu": "h100"}, True)
    for bad in ("--partition", "{no json"):
        with pytest.raises(ProviderError, match="option"):
            Kubernetes(SITE, POOL).manifest(spec(replace(POOL, options=(bad,))))


def test_kubectl_creates_and_deletes_jobs(kubectl: Path) -> None:
    provider = Kubernetes(SITE, POOL)
    assert provider.request(spec()) == "created"
    assert json.loads((kubectl / "manifest").read_text())["metadata"]["name"] == "weft-0a1b2c-k8s-0-abc"
    provider.check(spec())
    provider.release("weft-0a1b2c-k8s-0-abc")
    assert provider.log(spec(), "weft-0a1b2c-k8s-0-abc") == "worker: no GPU"
    calls = (kubectl / "calls").read_text().splitlines()
    assert all(call.startswith("--context prod --namespace ml ") for call in calls)
    assert "--dry-run=server" in calls[1]
    assert "delete job weft-0a1b2c-k8s-0-abc --ignore-not-found" in calls[2]


def item(kind: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": f"weft-{key}", "labels": {"weft/key": key}}, **fields}


def condition(kind: str, reason: str = "", status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": reason}]}


def test_answers_become_phases(kubectl: Path) -> None:
    waiting = {"phase": "Pending", **condition("PodScheduled", "Unschedulable", "False")}
    pulling = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}
    items = [
        item("Job", "a", spec={"suspend": True}),
        item("Job", "b"), item("Pod", "b", status=waiting),
        item("Job", "c"), item("Pod", "c", status={"phase": "Running"}),
        item("Job", "d", status=condition("Complete")),
        item("Job", "e", status=condition("Failed", "DeadlineExceeded")),
        item("Job", "f"), item("Pod", "f", status=pulling),
        item("Job", "g"),
    ]  # fmt: skip
    (kubectl / "answer").write_text(json.dumps({"items": items}))
    assert list(Kubernetes(SITE, POOL).observe()) == [
        AllocationStatus("a", "weft-a", "pending", "Suspended", "Suspended"),
        AllocationStatus("b", "weft-b", "pending", "Pending", "Unschedulable"),
        AllocationStatus("c", "weft-c", "running", "Running"),
        AllocationStatus("d", "weft-d", "ended", "Complete"),
        AllocationStatus("e", "weft-e", "ended", "DeadlineExceeded"),
        AllocationStatus("f", "weft-f", "pending", "Pending", "ErrImagePull"),
        AllocationStatus("g", "weft-g", "pending", "Pending"),
    ]


def test_without_kubectl_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderError, match="kubectl is not installed here"):
        Kubernetes(SITE, POOL).observe()
