"""The files that git tracks, as one archive: the same files, the same bytes."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from weft.access.jobspec import source as snapshot
from weft.access.jobspec.source import take_snapshot, take_snapshots
from weft.access.wire.messages import JobSpec
from weft.errors import InputError


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "train.py").write_text("print(1)\n")
    (root / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (root / "sub" / "run.sh").chmod(0o750)
    (root / ".gitignore").write_text("*.log\n")
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "first")
    return root


def contents(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {each.name: archive.extractfile(each) for each in archive.getmembers() if each.isreg()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_it_is_what_is_tracked_as_it_is_now(tree: Path) -> None:
    (tree / "train.py").write_text("print(2)\n")  # changed, not committed
    (tree / "staged.py").write_text("new\n")
    git(tree, "add", "staged.py")
    (tree / "untracked.py").write_text("x\n")
    (tree / "ignored.log").write_text("x\n")
    (tree / "sub" / "gone.py").write_text("x\n")
    git(tree, "add", "sub/gone.py")
    (tree / "sub" / "gone.py").unlink()
    found = take_snapshot(tree)
    assert contents(found.packed) == {
        ".gitignore": b"*.log\n", "staged.py": b"new\n", "sub/run.sh": b"#!/bin/sh\n", "train.py": b"print(2)\n",
    }  # fmt: skip
    assert found.left_out == ("untracked.py",)
    assert found.files == 4


def test_the_same_files_make_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    subprocess.run(["cp", "-r", str(tree), str(other)], check=True)
    for path in (other / "train.py", other / "sub" / "run.sh"):
        os.utime(path, (1, 1))
    (other / "sub" / "run.sh").chmod(0o755)
    assert take_snapshot(tree).name == take_snapshot(other).name
    (other / "train.py").chmod(0o755)
    assert take_snapshot(tree).name != take_snapshot(other).name


def test_a_folder_in_it_is_run_in_that_folder(tree: Path) -> None:
    assert take_snapshot(tree / "sub").inside == "sub"
    assert take_snapshot(tree / "sub").name == take_snapshot(tree).name
    here, there = JobSpec(command=["a"]), JobSpec(command=["b"], chdir=str(tree / "sub"))
    (only,) = take_snapshots([here, there], str(tree))
    assert (here.snapshot, here.chdir) == (only.name, ".")
    assert (there.snapshot, there.chdir) == (only.name, "sub")


def test_links_stay_links_unless_they_lead_out(tree: Path) -> None:
    (tree / "sub" / "in").symlink_to("../train.py")
    (tree / "data").symlink_to("/somewhere/else")
    (tree / "up").symlink_to("../beside")
    git(tree, "add", ".")
    found = take_snapshot(tree)
    with tarfile.open(fileobj=io.BytesIO(found.packed)) as archive:
        assert archive.getmember("sub/in").linkname == "../train.py"
        archive.extractall(tree.parent / "out", filter="data")
    assert found.left_out == ("data", "up")
    assert (tree.parent / "out" / "sub" / "in").read_text() == "print(1)\n"


def test_hard_links_are_files(tree: Path) -> None:
    os.link(tree / "train.py", tree / "twin.py")
    git(tree, "add", ".")
    assert contents(take_snapshot(tree).packed)["twin.py"] == b"print(1)\n"


def test_too_much_is_refused_with_the_largest(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_TREE_BYTES", 1 << 20)
    (tree / "weights.bin").write_bytes(os.urandom(3 << 20))
    git(tree, "add", ".")
    with pytest.raises(InputError, match=r"weights\.bin \(3 MB\)"):
        take_snapshot(tree)
    monkeypatch.setattr(snapshot, "MAX_TREE_BYTES", 1 << 30)
    monkeypatch.setattr(snapshot, "MAX_PACKED_BYTES", 1 << 20)
    with pytest.raises(InputError, match="packed; the limit is 1 MB"):
        take_snapshot(tree)


def test_what_is_no_repository_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a git repository"):
        take_snapshot(tmp_path)
    git(tmp_path, "init")
    with pytest.raises(InputError, match="git tracks no files"):
        take_snapshot(tmp_path)
