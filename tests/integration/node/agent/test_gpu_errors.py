"""A GPU that reports errors: its node is cordoned, jobs go elsewhere, and an admin opens it again."""

from __future__ import annotations

import json

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until


def write_gpus(here: Cluster, node: str, error: str = "") -> str:
    path = here.root / f"{node}.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"devices": [{"index": 0, "model": "V100", "error": error}]}))
    fresh.replace(path)
    return str(path)


def test_a_node_whose_gpu_reports_errors_is_cordoned_until_an_admin_opens_it() -> None:
    with cluster(gpus=1) as here:
        for node in ("n1", "n2"):
            here.env["WEFT_NVML_FAKE"] = write_gpus(here, node)
            here.start(node, "worker", "--id", node)
        until(lambda: here.connected() == {"n1", "n2"})
        write_gpus(here, "n1", "Xid 79")
        until(lambda: here.node("n1")["closed"] == ["NodeUnhealthy"])
        assert here.node("n1")["unhealthy"] == "GPU 0: Xid 79"
        assert "NodeUnhealthy: GPU 0: Xid 79" in here.weft("nodes")
        assert here.metric('weft_nodes_cordoned{reason="NodeUnhealthy"}') == 1
        first, second = here.submit("sleep", "600"), here.submit("sleep", "600")
        assert here.until_status(first, "running")["place"] == "n2[0]"
        assert "NodeUnhealthy" in {each["code"] for each in here.json("why", second)["reasons"]}
        here.weft("undrain", "n1")  # the error stays, and the admin knows it
        assert here.until_status(second, "running")["place"] == "n1[0]"
        here.kill9("server")
        here.serve()
        until(lambda: here.connected() == {"n1", "n2"} and has_reported_its_gpus(here))
        assert here.node("n1")["closed"] == []
        write_gpus(here, "n1")
        until(lambda: gpu_error(here) is None)
        write_gpus(here, "n1", "Xid 79")
        until(lambda: here.node("n1")["closed"] == ["NodeUnhealthy"])


def gpu_error(here: Cluster) -> str | None:
    (gpu,) = (each for each in here.json("gpus")["gpus"] if each["node"] == "n1")
    error: str | None = gpu.get("error")
    return error


def has_reported_its_gpus(here: Cluster) -> bool:
    return gpu_error(here) == "Xid 79"
