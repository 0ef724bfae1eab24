"""The image of a service with `build`: made on this machine before the service is deployed, once for each content."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from weft.access.endpoints.addresses import Address
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.inputs.yaml import YamlMapping


def build_image(text: str, file: str, scheduler: Address | None, *, dry_run: bool = False) -> str:
    """Build the image that a description asks for, and return its tag; empty: it asks for none.

    Paths are relative to the file. With `dry_run`, return the tag without building.
    """
    if "build" not in text:  # nearly all: nothing to parse
        return ""
    from weft.inputs.yaml import parse_yaml

    entry = parse_yaml(text, file).mapping("a service")
    given = entry.get("build")
    if given is None:
        return ""
    if entry.get("image") is not None:
        raise given.error("image and build", "give one of them")
    if scheduler is not None and not scheduler.is_loopback:
        raise given.error(
            "the image would be on this machine, and the replicas are on others",
            "push it to a registry that the nodes reach, and give its name: image: REGISTRY/NAME:TAG",
        )
    keys = given.mapping("build", ("context", "file", "args"))
    with given.locating():
        return _build(keys, os.path.dirname(file), entry.text("runtime", ""), dry_run=dry_run)


def _build(keys: YamlMapping, folder: str, runtime: str, *, dry_run: bool) -> str:
    context = os.path.join(folder, keys.text("context", "."))
    words = [sys.executable, "-P", "-m", "weft", "image", "build", context, "--runtime", runtime]
    if file := keys.text("file", ""):
        words += ["--file", file]
    listed = keys.get("args")
    for name, value in {} if listed is None else listed.mapping("args").entries.items():
        words += ["--build-arg", f"{name}={value.text()}"]
    done = subprocess.run([*words, *["--dry-run"] * dry_run], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise WeftError("the image of the service was not built\n  the lines above say why")
    return done.stdout.strip()
