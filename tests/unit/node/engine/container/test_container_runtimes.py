"""The arguments of each container runtime, and how its answers are read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from weft.inputs.mounts import Mount, parse_mount
from weft.node.engine.container.apptainer import Apptainer, image_address
from weft.node.engine.container.detection import find_runtime
from weft.node.engine.container.devices import find_devices
from weft.node.engine.container.docker import Docker
from weft.node.engine.container.images import Image, content_hash, default_tag, old_images
from weft.node.engine.container.mounts import combine, resolve
from weft.node.engine.container.podman import Podman
from weft.node.engine.container.port import Answer, ContainerError, ContainerSpec, Devices

GPUS = Devices(("GPU-a", "GPU-b"), nvidia=True, cdi=True)
SPEC = ContainerSpec(
    "weft-1-1-x", "python:3.12", ("python", "train.py"), (Mount("/a", "/b", read_only=True),), "/w",
    env={"A": "secret", "PATH": "/x"}, host_env={"PATH": "/usr/bin"}, labels={"weft.job": "1"}, devices=GPUS,
    ram_mb=100, cpus=2, pid_file="/p", user=(1000, 100),
)  # fmt: skip
ABLE = Answer("x", "/bin/x", "1", limits_memory=True, has_init=True)


def after(words: list[str], flag: str) -> list[str]:
    """The values of a flag, in their order."""
    return [value for name, value in pairwise(words) if name == flag]


@pytest.mark.parametrize("runtime", [Podman(), Docker()])
def test_podman_and_docker_get_the_same_container(runtime: Podman | Docker) -> None:
    words = list(runtime.run(SPEC, ABLE))
    assert words[-3:] == ["python:3.12", "python", "train.py"]
    assert after(words, "--volume") == ["/a:/b:ro"]
    assert after(words, "--memory") == after(words, "--memory-swap") == ["100m"]
    assert after(words, "--cpus") == ["2"]
    assert after(words, "--network") == after(words, "--ipc") == ["host"]
    assert after(words, "--workdir") == ["/w"]
    assert after(words, "--label") == ["weft.job=1"]
    assert "--init" in words
    assert {"A", "PATH=/x"} <= set(after(words, "--env"))
    assert "secret" not in " ".join(words), "other users can read the arguments of a process"
    assert runtime.client_env(SPEC) == {"A": "secret", "PATH": "/usr/bin"}
    assert "--init" not in runtime.run(SPEC, ABLE._replace(has_init=False))
    assert "--memory" not in runtime.run(SPEC, ABLE._replace(limits_memory=False))


def test_each_runtime_passes_on_gpus_in_its_way() -> None:
    assert after(list(Podman().run(SPEC, ABLE)), "--device") == ["nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-b"]
    assert after(list(Docker().run(SPEC, ABLE)), "--gpus") == ['"device=GPU-a,GPU-b"']
    assert "--nv" in Apptainer().run(SPEC, ABLE)


def test_podman_without_a_description_of_the_gpus_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    devices = find_devices(("GPU-a",), root=str(tmp_path))
    assert (devices.nvidia, devices.cdi, devices.hook) == (True, False, False)
    spec = ContainerSpec("n", "i", ("c",), devices=devices)
    with pytest.raises(ContainerError, match="nvidia-ctk cdi generate"):
        Podman().run(spec, ABLE)
    (tmp_path / "etc" / "cdi").mkdir(parents=True)
    (tmp_path / "etc" / "cdi" / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    assert find_devices(("GPU-a",), root=str(tmp_path)).cdi


def test_users_keep_their_id() -> None:
    assert after(list(Podman().run(SPEC, ABLE._replace(rootless=True))), "--userns") == ["keep-id"]
    assert after(list(Podman().run(SPEC, ABLE._replace(rootless=True, has_more_ids=False))), "--userns") == []
    assert after(list(Podman().run(SPEC, ABLE)), "--userns") == []
    assert after(list(Docker().run(SPEC, ABLE)), "--user") == ["1000:100"]
    assert after(list(Docker().run(SPEC, ABLE._replace(rootless=True))), "--user") == []


def test_apptainer_gets_variables_by_prefix_and_images_by_address() -> None:
    words = list(Apptainer().run(SPEC, ABLE))
    assert words[-3:] == ["docker://python:3.12", "python", "train.py"]
    assert after(words, "--bind") == ["/a:/b:ro"]
    assert after(words, "--pwd") == ["/w"]
    assert Apptainer().client_env(SPEC) == {"PATH": "/usr/bin", "APPTAINERENV_A": "secret", "APPTAINERENV_PATH": "/x"}
    assert [image_address(each) for each in ("./a.sif", "/x/y", "oras://z", "a/b:1")] == [
        "./a.sif", "/x/y", "oras://z", "docker://a/b:1",
    ]  # fmt: skip


def test_a_runtime_without_its_daemon_does_not_count(tmp_path: Path) -> None:
    def program(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    program("podman", "echo 'cannot open storage' >&2; exit 125")
    program("docker", "echo '{\"ServerVersion\": \"\"}'; echo 'Cannot connect to the Docker daemon' >&2; exit 0")
    program("singularity", "echo 3.8.7")
    runtime, answer = find_runtime("", env)
    assert (runtime.name, answer.version, Path(answer.program).name) == ("apptainer", "3.8.7", "singularity")
    with pytest.raises(ContainerError, match="podman does not work on this node: podman: cannot open storage"):
        find_runtime("podman", env)
    program("docker", 'echo \'{"ServerVersion": "28.0", "MemoryLimit": true, "InitBinary": "docker-init"}\'')
    cache = str(tmp_path / "cache.json")
    assert find_runtime("", env, cache)[1][2:6] == ("28.0", False, True, True)
    program("docker", "exit 1")
    assert find_runtime("", env, cache)[0].name == "docker", "the answer is remembered for a minute"


def test_failures_are_told_apart() -> None:
    said = "Trying to pull localhost/x:1...\nError: initializing source docker://localhost/x:1: connection refused"
    assert Podman().describe_failure(said)[0] == "bad-image"
    assert Podman().describe_failure("Error: runc: mount failed: permission denied") == (
        "bad-container", "podman: runc: mount failed: permission denied",
    )  # fmt: skip
    pull = "docker: Error response from daemon: pull access denied for x, repository does not exist"
    assert Docker().describe_failure(pull)[0] == "bad-image"
    assert Apptainer().describe_failure("FATAL:   could not open image /x.sif: no such file")[0] == "bad-image"


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/a", Mount("/a", "/a")),
        ("/a:ro", Mount("/a", "/a", read_only=True)),
        ("a:/b:rw", Mount("a", "/b")),
        ("~/a:/b/:ro", Mount("~/a", "/b", read_only=True)),
    ],
)
def test_a_mount_is_read(text: str, mount: Mount) -> None:
    assert parse_mount(text) == mount


@pytest.mark.parametrize("text", ["", ":/b", "a", "a:b", "a:/", "a:/b:/c", "a,b:/c", "/a:/b:rx"])
def test_a_bad_mount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_mount(text)


def test_mounts_of_users_come_first_and_no_target_is_mounted_twice(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    work, home = str(tmp_path), str(tmp_path / "data")
    given = resolve([Mount("data", "/d"), Mount("~", "/h")], work, home)
    assert given == [Mount(home, "/d"), Mount(home, "/h")]
    with pytest.raises(ContainerError, match="no such file or folder on this node"):
        resolve([Mount("missing", "/d")], work, home)
    own = [Mount("/w", "/w"), Mount("/w/job", "/w/job"), Mount("/z", "/d"), Mount("/p", "/p", read_only=True)]
    assert combine(given, own) == (*given, Mount("/w", "/w"), Mount("/p", "/p", read_only=True))
    read_only = [Mount("/w", "/w", read_only=True)]
    assert combine(read_only, [Mount("/w/job", "/w/job")]) == (*read_only, Mount("/w/job", "/w/job"))


def test_a_tag_follows_from_the_content(tmp_path: Path) -> None:
    file = tmp_path / "Containerfile"
    file.write_text("FROM scratch\n")
    (tmp_path / "code.py").write_text("1")
    (tmp_path / "notes.log").write_text("1")
    (tmp_path / ".containerignore").write_text("*.log\n")

    def found(*args: str) -> str:
        return content_hash(str(tmp_path), str(file), args)

    before = found()
    (tmp_path / "notes.log").write_text("2")
    assert found() == before
    assert len({before, found("A=1"), found("A=2")}) == 3
    (tmp_path / "code.py").chmod(0o755)
    changed = found()
    (tmp_path / "code.py").write_text("2")
    assert len({before, changed, found()}) == 3
    assert default_tag("/x/My Project", "a" * 64, "") == f"localhost/my-project:{'a' * 16}"


def test_the_newest_images_of_each_name_stay() -> None:
    images = [Image(f"{name}:{at}", "", f"2026-01-0{at}", "") for at in (3, 2, 1) for name in ("a", "b")]
    assert [image.name for image in old_images(images, 2)] == ["a:1", "b:1"]
