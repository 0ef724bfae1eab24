"""Find a container runtime by asking each whether it works: docker is often installed where no daemon runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from weft.node.engine.container.apptainer import Apptainer
from weft.node.engine.container.docker import Docker
from weft.node.engine.container.oci import describe_failure
from weft.node.engine.container.podman import Podman
from weft.node.engine.container.port import Answer, ContainerError, ContainerRuntime

RUNTIMES: Final[tuple[ContainerRuntime, ...]] = (Podman(), Docker(), Apptainer())
"""In the order in which they are asked."""
PROGRAMS: Final = {"apptainer": ("apptainer", "singularity")}
"""Names of the program of a runtime, if it has several."""
NO_RUNTIME: Final = "no-runtime"
ASK_TIMEOUT_S: Final = 20.0
"""Time within which a runtime must answer. A busy machine may take seconds."""
NOT_FOUND_EXIT: Final = 127
REMEMBER_S: Final = 60.0
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
HOST_NAMES: Final = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "TERM", "REGISTRY_AUTH_FILE", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "DBUS_SESSION_BUS_ADDRESS",
})  # fmt: skip
HOST_PREFIXES: Final = ("XDG_", "DOCKER_", "CONTAINER", "BUILDAH_", "PODMAN_", "APPTAINER_", "SINGULARITY_", "STORAGE_")
"""Variables of this node that the program of a runtime needs: where its configuration, images and sockets are."""


def runtime_named(name: str) -> ContainerRuntime:
    return next(each for each in RUNTIMES if each.name == name)


def host_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this node for the programs of runtimes."""
    found = {name: value for name, value in env.items() if name in HOST_NAMES or name.startswith(HOST_PREFIXES)}
    found.setdefault("PATH", DEFAULT_PATH)
    if "HOME" not in found:
        found["HOME"] = os.path.expanduser("~")
    return found


def find_runtime(wanted: str, env: Mapping[str, str], cache: str = "") -> tuple[ContainerRuntime, Answer]:
    """Return the wanted runtime, or the first that works. Raise ContainerError with what each of them says.

    `cache` is a file that remembers the answer for a minute.
    """
    if (known := _remembered(cache, wanted)) is not None:
        return runtime_named(known.name), known
    problems = []
    for runtime in RUNTIMES:
        if wanted not in ("", runtime.name):
            continue
        answer, problem = ask(runtime, env)
        if answer is not None:
            _remember(cache, wanted, answer)
            return runtime, answer
        problems.append(problem)
    what = wanted or "no container runtime"
    verb = "does not work" if wanted else "works"
    raise ContainerError(NO_RUNTIME, f"{what} {verb} on this node: {'; '.join(problems)}")


def ask(runtime: ContainerRuntime, env: Mapping[str, str]) -> tuple[Answer | None, str]:
    """Return what a runtime says of itself, or why it does not work."""
    names = PROGRAMS.get(runtime.name, (runtime.name,))
    program = next(filter(None, (shutil.which(name, path=env.get("PATH", DEFAULT_PATH)) for name in names)), None)
    if program is None:
        return None, f"{runtime.name} is not installed"
    try:
        code, out, err = _call([program, *runtime.ask()], env)
    except subprocess.TimeoutExpired:
        return None, f"{runtime.name} does not answer within {ASK_TIMEOUT_S:g} s"
    except OSError as error:
        return None, f"{runtime.name}: {error.strerror}"
    answer = runtime.read_answer(program, out) if code == 0 else None
    if answer is not None:
        return answer, ""
    said = (err.strip() or out.strip() or f"exit code {code}").splitlines()[-1]
    return None, f"{runtime.name}: {said.strip()[:200]}"


def try_podman(answer: Answer, env: Mapping[str, str]) -> str:
    """Return why podman starts no container although it answers; empty: it does. No image is needed: the container has
    an empty root, and podman exits with 127 once the OCI runtime finds that its program does not exist."""
    with tempfile.TemporaryDirectory(prefix="weft-podman-", ignore_cleanup_errors=True) as root:
        words = ["run", "--rm", "--network", "host", "--log-driver", "none", "--rootfs", root, "/nothing"]
        try:
            code, out, err = _call([answer.program, *words], env)
        except subprocess.TimeoutExpired:
            return f"podman starts no container within {ASK_TIMEOUT_S:g} s"
        except OSError as error:
            return f"podman: {error.strerror}"
    return "" if code == NOT_FOUND_EXIT else describe_failure(err or out or f"exit code {code}", "podman")[1]


def _call(words: Sequence[str], env: Mapping[str, str]) -> tuple[int, str, str]:
    """Return the exit code and output of a program, or kill it and its children after `ASK_TIMEOUT_S`."""
    with subprocess.Popen(
        words, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=ASK_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, out, err


def _remembered(cache: str, wanted: str) -> Answer | None:
    try:
        with open(cache, encoding="utf-8") as file:
            found = json.load(file)
        if found["wanted"] == wanted and 0 <= time.time() - found["at"] < REMEMBER_S:
            return Answer(**found["answer"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _remember(cache: str, wanted: str, answer: Answer) -> None:
    if not cache:
        return
    temporary = f"{cache}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"wanted": wanted, "at": time.time(), "answer": answer._asdict()}, file)
        os.rename(temporary, cache)
    except OSError:
        return
