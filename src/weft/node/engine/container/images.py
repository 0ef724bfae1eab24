"""Images that `weft image` builds: tagged by a hash of their content, so that an unchanged folder is built once."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from weft.errors import InputError, WeftError
from weft.node.engine.container.detection import find_runtime
from weft.node.engine.container.port import Answer, ContainerError
from weft.node.engine.container.removal import call

LABEL: Final = "weft.content"
"""The label that holds the hash."""
CONTAINERFILES: Final = ("Containerfile", "Dockerfile")
IGNORE_FILES: Final = (".containerignore", ".dockerignore")
ROW_FORMAT: Final = "{{.Repository}}:{{.Tag}}\t{{.ID}}\t{{.CreatedAt}}\t{{.Size}}"
"""The fields of `Image`."""
TAG_DIGITS: Final = 16
CHUNK_BYTES: Final = 1 << 20


class Image(NamedTuple):
    """An image that `weft image` has built on this machine."""

    name: str
    id: str
    created: str
    size: str


class Builder:
    """The program that builds images here: podman or docker."""

    def __init__(self, wanted: str, env: Mapping[str, str]) -> None:
        if wanted == "apptainer":
            raise InputError(
                "apptainer does not build Containerfiles",
                hint="build with podman or docker, then: apptainer build IMAGE.sif docker-daemon:TAG",
            )
        self._env = env
        self.answer = self._find(wanted)

    def _find(self, wanted: str) -> Answer:
        problems = []
        for name in (wanted,) if wanted else ("podman", "docker"):
            try:
                return find_runtime(name, self._env)[1]
            except ContainerError as error:
                problems.append(error.detail)
        raise WeftError(
            f"no image can be built here: {'; '.join(problems)}\n  install podman, or start docker's daemon"
        )

    def has(self, tag: str) -> bool:
        return call([self.answer.program, "image", "inspect", tag], self._env)[0] == 0

    def build(self, context: str, file: str, tag: str, digest: str, args: Sequence[str]) -> int:
        """Build an image. Its output goes to standard error; return the exit code."""
        words = [part for each in args for part in ("--build-arg", each)]
        argv = [self.answer.program, "build", "--tag", tag, "--label", f"{LABEL}={digest}", "--file", file, *words]
        return subprocess.run([*argv, context], env=dict(self._env), stdout=2, check=False).returncode

    def images(self) -> list[Image]:
        """Return the images that `weft image` built, newest first."""
        words = ["images", "--filter", f"label={LABEL}", "--format", ROW_FORMAT]
        code, said = call([self.answer.program, *words], self._env)
        if code:
            raise WeftError(f"{self.answer.name} does not list its images: {said.strip()[-300:]}")
        rows = [line.split("\t") for line in said.splitlines()]
        found = [Image(*row) for row in rows if len(row) == len(Image._fields)]
        return sorted(found, key=lambda image: image.created, reverse=True)

    def remove(self, image: Image) -> str:
        """Remove an image; return why it stays, or an empty text. An image in use stays."""
        code, said = call([self.answer.program, "rmi", image.name], self._env)
        return "" if code == 0 else said.strip().splitlines()[-1] if said.strip() else f"exit code {code}"


class BuiltImage(NamedTuple):
    """An image that is there, with the program that has it."""

    tag: str
    is_new: bool
    runtime: str


def build_once(
    context: str, file: str, args: Sequence[str], *, runtime: str, env: Mapping[str, str], name: str = "",
    force: bool = False,
) -> BuiltImage:  # fmt: skip
    """Build the image of a folder, unless the same content was built before."""
    tag, digest = tag_of(context, file, args, name)
    builder = Builder(runtime, env)
    is_new = force or not builder.has(tag)
    if is_new and (code := builder.build(context, file, tag, digest, args)):
        raise WeftError(f"{builder.answer.name} could not build {context}: exit code {code}\n  its output says why")
    return BuiltImage(tag, is_new, builder.answer.name)


def tag_of(context: str, file: str, args: Sequence[str], name: str = "") -> tuple[str, str]:
    """Return the tag of the image of a folder, and the hash of its content."""
    digest = content_hash(context, file, args)
    return default_tag(context, digest, name), digest


def find_containerfile(context: str, given: str) -> str:
    """Return the path of the Containerfile. Raise if there is none."""
    names = (given,) if given else CONTAINERFILES
    for name in names:
        for path in (os.path.join(context, name), name if given else ""):
            if path and os.path.isfile(path):
                return path
    if not os.path.isdir(context):
        raise InputError(f"there is no folder {context!r}", hint="name the folder with the Containerfile")
    raise InputError(f"there is no {' or '.join(names)} in {context!r}", hint="write one, or name it with --file")


def content_hash(context: str, file: str, args: Sequence[str]) -> str:
    """Return a hash of all that an image is built from: Containerfile, build arguments and files of the context."""
    digest = hashlib.sha256()
    with open(file, "rb") as opened:
        _add(digest, "Containerfile", opened.read())
    for arg in sorted(args):
        _add(digest, "arg", arg.encode())
    ignored = _ignored(context)
    for path in sorted(_files(context, ignored)):
        full = os.path.join(context, path)
        mode = os.lstat(full).st_mode
        if stat.S_ISLNK(mode):
            _add(digest, f"link {path}", os.readlink(full).encode())
        elif stat.S_ISREG(mode):
            _add(digest, f"file {path} {mode & 0o777:o}", _file_hash(full))
        else:
            _add(digest, f"folder {path} {mode & 0o777:o}", b"")
    return digest.hexdigest()


def default_tag(context: str, digest: str, name: str) -> str:
    """Return the tag of an image: the name of its folder, unless one is given, and the hash."""
    base = name or os.path.basename(os.path.abspath(context)) or "image"
    plain = "".join(char if char.isalnum() or char in "._-/" else "-" for char in base.lower()).strip("._-/")
    return f"localhost/{plain or 'image'}:{digest[:TAG_DIGITS]}"


def old_images(images: Sequence[Image], keep: int) -> list[Image]:
    """Return all but the newest `keep` images of each name. `images` come newest first."""
    counts: dict[str, int] = {}
    found = []
    for image in images:
        name = image.name.rpartition(":")[0]
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > keep:
            found.append(image)
    return found


def _files(context: str, ignored: Sequence[str]) -> Iterator[str]:
    for folder, folders, files in os.walk(context):
        inside = os.path.relpath(folder, context)
        prefix = "" if inside == "." else f"{inside}/"
        folders[:] = [name for name in folders if not _matches(f"{prefix}{name}", ignored)]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (f"{prefix}{name}" for name in (*files, *folders) if not _matches(f"{prefix}{name}", ignored))
        folders[:] = [name for name in folders if name not in links]


def _ignored(context: str) -> list[str]:
    """Return the patterns of files that do not get into the image; none if the file has exceptions (`!`)."""
    for name in IGNORE_FILES:
        try:
            with open(os.path.join(context, name), encoding="utf-8") as file:
                lines = [line.strip() for line in file]
        except OSError:
            continue
        patterns = [line.strip("/") for line in lines if line and not line.startswith("#")]
        return [] if any(line.startswith("!") for line in patterns) else patterns
    return []


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(path, each) or fnmatch.fnmatch(path, each.removeprefix("**/")) for each in patterns)


def _file_hash(path: str) -> bytes:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(CHUNK_BYTES):
            digest.update(part)
    return digest.digest()


def _add(digest: hashlib._Hash, name: str, content: bytes) -> None:
    """Add a part with its name and size, so that no two sequences of parts hash alike."""
    head = name.encode(errors="surrogateescape")
    digest.update(b"%d %d " % (len(head), len(content)) + head + content)
