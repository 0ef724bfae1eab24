"""A Ray cluster of a test's own, in network and process namespaces: nothing of it listens elsewhere or stays behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.local_scheduler import until
from support.loopback_namespace import needed, nowhere_else

RAY = Path(os.environ.get("WEFT_TEST_RAY", Path(__file__).parents[2] / ".venv" / "ray" / "bin" / "ray"))
"""Ray has a separate virtual environment: Weft does not import it."""
PORT, DASHBOARD = 6390, 8265
START_S = 180.0
SCRIPT = """\
{ray} start --head --node-ip-address=127.0.0.1 --port={port} --num-cpus=2 --num-gpus={gpus} --dashboard-host=127.0.0.1 \
--dashboard-port={dashboard} --temp-dir={root}/t --disable-usage-stats --object-store-memory=80000000 || exit 1
for node in $(seq 2 {nodes}); do
  {ray} start --address=127.0.0.1:{port} --node-ip-address=127.0.0.1 --num-cpus=2 --num-gpus={gpus} \
--disable-usage-stats --object-store-memory=80000000 || exit 1
done
touch {root}/ready
exec sleep infinity
"""


@dataclass
class Ray:
    root: Path
    prefix: tuple[str, ...]
    env: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{DASHBOARD}"

    @property
    def token_file(self) -> Path:
        return self.root / "token"


def need_ray() -> None:
    needed("Ray", RAY.exists(), "make test installs it into .venv/ray")


@contextlib.contextmanager
def ray(nodes: int = 2, gpus: int = 2) -> Iterator[Ray]:
    """Start a head and further nodes, each with as many fake GPUs. Commands reach it with `prefix`."""
    need_ray()
    root = Path(tempfile.mkdtemp(prefix="weft-ray-"))
    (root / "token").write_text(secrets.token_hex(32))
    (root / "token").chmod(0o600)
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PYTHON"))},
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": f"{root}/token", "HOME": str(root),
        "RAY_raylet_start_wait_time_s": "170",
    }  # fmt: skip
    script = SCRIPT.format(ray=RAY, port=PORT, dashboard=DASHBOARD, root=root, gpus=gpus, nodes=nodes)
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
