"""Images with a real podman: weft image, the Containerfiles of this project, and an image made by hand."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.peers.podman_store import IMAGE, PodmanStore, podman
from support.running.local_scheduler import Site, site, until

__all__ = ["podman"]
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def here(podman: PodmanStore) -> Iterator[Site]:
    with site({"gpus": "0", "min_run_s": 0}, **podman.env) as found:
        yield found


def test_an_image_is_built_once_for_the_same_content(here: Site) -> None:
    context = here.root / "Trainer"
    context.mkdir()
    (context / "Containerfile").write_text(f"FROM {IMAGE}\nCOPY train.sh /train.sh\n")
    (context / "train.sh").write_text("echo trained with version 1\n")
    first = json.loads(here.weft("image", "build", str(context), "--json", check=True).stdout)
    again = json.loads(here.weft("image", "build", str(context), "--json", check=True).stdout)
    assert (first["image"], first["built"], again["built"]) == (again["image"], True, False)
    assert first["image"].startswith("localhost/trainer:")
    (context / "train.sh").write_text("echo trained with version 2\n")
    second = here.weft("image", "build", str(context), check=True).stdout.strip()
    assert second != first["image"]
    done = here.weft("run", "-q", "--gpus", "0", "--image", second, "--", "/bin/sh", "/train.sh", check=True)
    assert done.stdout == "trained with version 2\n"
    listed = json.loads(here.weft("image", "list", "--json", check=True).stdout)["images"]
    assert {each["name"] for each in listed} == {first["image"], second}
    assert here.weft("image", "prune", check=True).stdout.split() == [first["image"]]
    assert [each["name"] for each in json.loads(here.weft("image", "list", "--json").stdout)["images"]] == [second]


@pytest.mark.soak
def test_a_service_is_built_from_its_folder_and_other_content_is_a_new_version(here: Site) -> None:
    (here.root / "svc").mkdir()
    file = here.root / "svc" / "svc.yaml"
    file.write_text(
        "service: built\nbuild: {context: image}\ngpus: 0\nhealth: {path: /, start_within: 60s, every: 300ms}\n"
        f"run: cd /www && exec {sys.executable} -m http.server --bind $WEFT_HOST $WEFT_PORT\n"
        f"mounts: [{sys.base_prefix}:{sys.base_prefix}:ro, {sys.prefix}:{sys.prefix}:ro]\n"
    )
    (here.root / "svc" / "image").mkdir()
    (here.root / "svc" / "image" / "Containerfile").write_text(f"FROM {IMAGE}\nCOPY index.html /www/index.html\n")
    for version in (1, 2):
        (here.root / "svc" / "image" / "index.html").write_text(f"version {version}\n")
        found = json.loads(here.weft("deploy", str(file), "--wait", "--json", check=True).stdout)
        assert found["version"] == version
        until(lambda: here.weft("call", "built", "/").stdout == f"version {version}\n")  # noqa: B023
    assert "unchanged" in here.weft("deploy", str(file), check=True).stderr
    here.weft("undeploy", "built", "--now", check=True)
    both = file.read_text() + "image: alpine\n"
    file.write_text(both)
    done = here.weft("deploy", str(file))
    assert (done.returncode, "image and build" in done.stderr) == (2, True)


def test_an_image_made_by_hand_runs_its_task_scripts_with_the_preloaded_libraries(
    podman: PodmanStore, tmp_path: Path
) -> None:
    """Create, copy libraries, copy the preload list, copy task scripts, commit: as docs/howto/run-in-containers.md."""
    library = next(Path("/lib").glob("*/libutil.so.1"), None) or Path(ctypes.util.find_library("util") or "")
    libs, tasks = tmp_path / "client-libs", tmp_path / "scripts_tasks"
    libs.mkdir()
    tasks.mkdir()
    (libs / "libhook.so").write_bytes(library.resolve().read_bytes())
    (libs / "ld.so.preload").write_text("/libhook.so\n")
    (tasks / "infer.sh").write_text("grep -c libhook.so /proc/self/maps > loaded\n")
    podman.write(shared=("/usr", "/lib", "/lib64", "/bin", "/sbin"))  # the image has its own /etc
    try:
        container = podman.podman("create", IMAGE, "/bin/true")
        podman.podman("cp", f"{libs}/libhook.so", f"{container}:/libhook.so")
        podman.podman("cp", f"{libs}/ld.so.preload", f"{container}:/etc/ld.so.preload")
        podman.podman("cp", str(tasks), f"{container}:/")
        podman.podman("commit", container, "localhost/torch:dilu")
        podman.podman("rm", container)
        with site({"gpus": "0", "min_run_s": 0}, **podman.env) as here, here.client() as client:
            job = here.submit(
                client, "/bin/sh", "/scripts_tasks/infer.sh", gpus="0", image="localhost/torch:dilu",
                chdir=str(here.root),
            )  # fmt: skip
            until(lambda: client.jobs([job]).jobs[0].status in ("done", "failed"))
            assert client.jobs([job]).jobs[0].status == "done", here.weft("logs", job).stdout
            assert int((here.root / "loaded").read_text()) > 0
    finally:
        podman.write()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("file", "command"),
    [("Containerfile", ("weft", "version")), ("Containerfile.workloads", ("weft_workloads", "--help"))],
)
def test_the_containerfiles_of_this_project_build(podman: PodmanStore, file: str, command: tuple[str, str]) -> None:
    """Nothing can be fetched: Python and the packages come from this machine, Weft itself into the image."""
    machine = {*("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc"), sys.base_prefix, sys.prefix}
    paths = sorted(path for path in machine if os.path.exists(path))
    volumes = [part for path in paths for part in ("--volume", f"{path}:{path}:ro")]
    arguments = {
        "BASE": IMAGE, "PYTHON": sys.executable,
        "PIP_ARGS": "--no-deps --no-build-isolation --no-index --target /opt/site",
    }  # fmt: skip
    words = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    tag = f"localhost/weft-{command[0]}:1"
    done = subprocess.run(
        ["podman", "build", *volumes, *words, "--file", str(ROOT / "containers" / file), "--tag", tag, str(ROOT)],
        env={**os.environ, **podman.env}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    run = [sys.executable, "-m", *command]
    name = "--env=PYTHONPATH=/opt/site"
    code = "import sys, {0}; print({0}.__file__)".format(command[0])
    where = podman.podman("run", "--rm", "--network=host", name, *volumes, tag, sys.executable, "-c", code)
    assert where.startswith("/opt/site/"), where
    assert podman.podman("run", "--rm", "--network=host", name, *volumes, tag, *run)
