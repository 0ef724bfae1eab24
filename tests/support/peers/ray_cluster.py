"""A Ray cluster of a test's own, in network and process namespaces: nothing of it listens elsewhere or stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.running.local_scheduler import until
from support.running.loopback_namespace import needed, nowhere_else

RAY = Path(os.environ.get("WEFT_TEST_RAY", Path(__file__).parents[3] / ".venv" / "ray" / "bin" / "ray"))
"""Ray has a separate virtual environment: Weft does not import it."""
PORT, DASHBOARD = 6379, 8265
"""Nodes that the autoscaler adds connect to the first port."""
START_S = 180.0
HEAD_ID = "f" * 51 + "00000"
"""The id that Ray's provider of fake nodes expects of the head."""
DEFAULTS = {
    "cluster_name": "fake", "max_workers": 8, "head_node_type": "ray.head.default", "upscaling_speed": 1.0,
    "provider": {"type": "fake_multinode"}, "available_node_types": {}, "file_mounts": {},
    "initialization_commands": [], "setup_commands": [], "head_setup_commands": [], "worker_setup_commands": [],
    "head_start_ray_commands": [], "worker_start_ray_commands": [], "cluster_synced_files": [],
    "rsync_exclude": [], "rsync_filter": [],
}  # fmt: skip
"""The defaults of that provider. Ray reads them from a file that its wheel lacks."""
SCRIPT = """\
{ray} start --head {autoscaler} --node-ip-address=127.0.0.1 --port={port} --num-cpus=2 \
--num-gpus={head_gpus} --dashboard-host=127.0.0.1 --dashboard-port={dashboard} --temp-dir={root}/t \
--disable-usage-stats --object-store-memory=80000000 || exit 1
touch {root}/ready
exec sleep infinity
"""
READ = """\
import sys, urllib.request as http
headers, method = {"Authorization": f"Bearer {sys.argv[2]}"}, (*sys.argv, "GET")[3]
request = http.Request(sys.argv[1], headers=headers, method=method)
print(http.urlopen(request, timeout=30).read().decode())
"""


@dataclass
class Ray:
    root: Path
    prefix: tuple[str, ...]
    env: dict[str, str]

    def nodes(self) -> int:
        """Return the number of living nodes, the head included, as Ray's state API says."""
        call = (sys.executable, "-c", READ, f"{self.url}/api/v0/nodes", self.token_file.read_text())
        found = subprocess.run([*self.prefix, *call], capture_output=True, text=True, timeout=60, check=False).stdout
        try:
            nodes = json.loads(found)["data"]["result"]["result"]
        except (ValueError, KeyError, TypeError):
            return 0
        return sum(node["state"] == "ALIVE" for node in nodes)

    def stop_job(self, id: str) -> None:
        """Stop a job through the Jobs API, as its owner could at any time."""
        call = (sys.executable, "-c", READ, f"{self.url}/api/jobs/{id}/stop", self.token_file.read_text(), "POST")
        subprocess.run([*self.prefix, *call], capture_output=True, text=True, timeout=60, check=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{DASHBOARD}"

    @property
    def token_file(self) -> Path:
        return self.root / "token"


def need_ray() -> None:
    needed("Ray", RAY.exists(), "make test installs it into .venv/ray")


@contextlib.contextmanager
def ray(nodes: int = 2, gpus: int = 2, head_gpus: int = 0) -> Iterator[Ray]:
    """Start a head. Ray's autoscaler (v2) adds up to `nodes` with `gpus` fake GPUs each, on demand; 0: there is none.

    Commands reach it with `prefix`.
    """
    need_ray()
    root = Path(tempfile.mkdtemp(prefix="weft-ray-"))
    (root / "token").write_text(secrets.token_hex(32))
    (root / "token").chmod(0o600)
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PYTHON"))},
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": f"{root}/token", "HOME": str(root),
        "RAY_raylet_start_wait_time_s": "170",
    }  # fmt: skip
    autoscaler = ""
    if nodes:
        _configure_autoscaler(root, nodes, gpus)
        autoscaler = f"--autoscaling-config={root}/nodes.yaml"
        env |= {
            "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "1",
            "RAY_CLOUD_INSTANCE_ID": HEAD_ID, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
        }  # fmt: skip
    script = SCRIPT.format(
        ray=RAY, port=PORT, dashboard=DASHBOARD, root=root, autoscaler=autoscaler, head_gpus=head_gpus
    )
    with nowhere_else() as prefix:
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
        with (root / "ray.out").open("w") as out:
            process = subprocess.Popen(
                [*prefix, *apart], env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
            )
        try:
            until(lambda: (root / "ready").exists() or process.poll() is not None, START_S)
            assert process.poll() is None, (root / "ray.out").read_text()[-3000:]
            yield Ray(root, prefix, env)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            shutil.rmtree(root, ignore_errors=True)


def _configure_autoscaler(root: Path, nodes: int, gpus: int) -> None:
    (package,) = RAY.parent.parent.glob("lib/python*/site-packages/ray/autoscaler/_private/fake_multi_node")
    if not (package / "example.yaml").exists():
        (package / "example.yaml").write_text(json.dumps(DEFAULTS))
    types = {
        "ray.head.default": {"resources": {"CPU": 2}, "node_config": {}, "max_workers": 0},
        "gpus": {
            "resources": {"CPU": 2, "GPU": gpus, "object_store_memory": 80_000_000}, "node_config": {},
            "min_workers": 0, "max_workers": nodes,
        },
    }  # fmt: skip
    provider = {"type": "fake_multinode", "launch_multiple": True, "head_node_id": HEAD_ID}
    config = {**DEFAULTS, "provider": provider, "available_node_types": types, "idle_timeout_minutes": 0.15}
    (root / "nodes.yaml").write_text(json.dumps(config))
