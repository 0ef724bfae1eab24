"""Wrong flags and hostile text: one clear error, exit code 2, nothing queued, nothing run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.weft_cli import Weft

WRONG = {
    "no command": ([], "no command to run"),
    "an empty program": (["--", ""], "command: it is empty"),
    "a missing program": (["--", "nosuchprogram"], "there is no program 'nosuchprogram' to run"),
    "a missing file": (["--", "./train.py"], "there is no program './train.py' to run"),
    "a file that is none to run": (["--", "/etc/passwd"], "there is no program '/etc/passwd' to run"),
    "not UTF-8": (
        ["--", "echo", "\udcff"],
        "command: '\\udcff' is not UTF-8 text\n  Weft stores commands as UTF-8 text: rename",
    ),
    "an unknown flag": (["--gpuz", "2", "--", "true"], "unknown option '--gpuz'\n  the nearest are --gpus, "),
    "too many GPUs": (["--gpus", "3", "--", "true"], "it needs 3 GPUs; this machine has 2"),
    "no number": (["--gpus", "many", "--", "true"], "--gpus: 'many' is not a whole number"),
    "digits of others": (["--gpus", "٣", "--", "true"], "--gpus: '٣' is not a whole number"),
    "an absurd number": (["--gpus", "9" * 400, "--", "true"], "--gpus: '999"),
    "negative": (["--retries", "-1", "--", "true"], "--retries: '-1' is not a whole number from 0"),
    "too much GPU memory": (
        ["--memory", "25G", "--", "true"],
        "it needs 1 GPU with 25,600 MB; the largest of this machine has 24,576 MB",
    ),
    "memory of others": (["--memory", "1G,2G,3G", "--", "true"], "error: memory_mb has 3 figures for 1 GPU\n"),
    "no size": (["--memory", "lots", "--", "true"], "--memory: 'lots' is not a size"),
    "too many CPUs": (["--cpus", "10000", "--", "true"], "10000 CPUs each; this machine can give 0"),
    "too much RAM": (["--mem", "900T", "--gpus", "0", "--", "true"], "MB of RAM; the largest node has"),
    "no such GPU": (["--gpu-ids", "2", "--", "true"], "there is no GPU 2"),
    "a GPU twice": (["--gpu-ids", "1,1", "--", "true"], "error: it is pinned to the same GPU twice"),
    "other GPUs": (["--gpu-ids", "1", "--gpus", "2", "--", "true"], "gpu_ids: it names 1, and the job needs 2"),
    "no such model": (["--gpu-model", "H100", "--", "true"], "it needs 1 GPU of model H100; this machine has 0"),
    "no time": (["-t", "soon", "--", "true"], "--time: 'soon' is not a duration"),
    "too much time": (["-t", "99999999d", "--", "true"], "--time: '99999999d' is not a duration"),
    "no array": (["--array", "9-0", "--", "true"], "--array: '9-0' is not an array"),
    "an endless array": (["--array", "0-999999999", "--", "true"], "--array: '0-999999999' is not an array"),
    "an array of none": (["--array", "0-9%0", "--", "true"], "--array: '0-9%0' is not an array"),
    "no such job": (["--after", "nope", "--", "true"], "after: there is no job 'nope'"),
    "no such condition": (["-d", "foo:1", "--", "true"], "no job 'foo:1', and 'foo' is no condition: use afterok,"),
    "another dependency": (
        ["--dependency", "aftercorr:1", "--", "true"],
        "'aftercorr:1' is not supported",
    ),
    "a name that is a number": (["--name", "7", "--", "true"], "name: '7' cannot be a name: commands would read it"),
    "a name that is a range": (["--name", "3-7", "--", "true"], "name: '3-7' cannot be a name"),
    "no directory": (["--chdir", "nowhere", "--", "true"], "is not a directory"),
    "no variable": (["--env", "NOSUCH", "--", "true"], "the variable 'NOSUCH' is not set here"),
    "an odd variable": (["--env", "A B=c", "--", "true"], "--env: 'A B' cannot be the name of a variable"),
    "half a param": (["--param", "x", "--", "true"], "--param: 'x' has no value"),
    "an odd exit code": (["--requeue-exit", "256", "--", "true"], "--requeue-exit: '256' is not a whole number"),
    "no job per GPU": (["--max-jobs-per-gpu", "0", "--", "true"], "--max-jobs-per-gpu: '0' is not a whole number"),
    "a comment of lines": (["--comment", "a\nb", "--", "true"], "--comment: expected one line of printable text"),
    "an empty key": (["--key", "", "--", "true"], "--key: expected 1 to 200"),
}


@pytest.mark.parametrize(("words", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_flag_queues_nothing(weft: Weft, words: list[str], expected: str) -> None:
    assert expected in weft.fails("submit", *words)


HARMFUL = (
    "", "a/b", "..\\x", "it's", 'a"b', "a`b", "$x", " a", "a\nb", "\x1b[31m", "a\u202eb", "x" * 201, "\x7f", "\udc80",
)  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL, ids=ascii)
def test_names_that_could_do_harm(weft: Weft, name: str) -> None:
    said = weft.fails("submit", "--name", name, "--", "true")
    assert "cannot be a name" in said
    assert said.isascii() or all(line.isprintable() for line in said.splitlines())


def test_names_that_people_give(weft: Weft) -> None:
    for name in (
        "ResNet50 Training",
        "über-训练 (2)",
        "a:b,c=d;e&f|g>h*",
        "-rf",
        "--help",
        "#0",
        "{params.x}",
    ):
        job = weft.submit(f"--name={name}", "--", "true")
        assert weft.show(job)["name"] == name
        assert name in weft("queue", "-a", "-o", "id,name").out


def test_errors_as_json(weft: Weft) -> None:
    error = json.loads(weft.fails("submit", "--json", "--gpus", "3", "--", "echo", "--json"))["error"]
    assert error["code"] == "input"
    assert "needs 3 GPUs" in error["message"]
    assert json.loads(weft("show", "--json", "nope", code=3).err)["error"]["code"] == "not-found"
    assert weft.fails("submit", "--gpus", "3", "--", "echo", "--json").startswith("weft: error: ")


def test_jobs_that_are_not_there(weft: Weft) -> None:
    for verb in ("show", "why", "logs", "wait", "cancel", "hold", "release", "restart", "clean"):
        for name in ("99999", "nope", "@~99999", "99990-99999", "\x1b[31m", "9" * 30):
            said = weft(verb, name, code=3).err
            assert said.startswith("weft: error: ")
            assert "\x1b" not in said
    assert "no jobs named" in weft("cancel", code=2).err
    assert "jobs and --all are both given" in weft("clean", "--all", "1", code=2).err
    assert "unknown field 'nme'\n  known: name, " in weft("queue", "-o", "id,nme", code=2).err
    assert "--since: 'x' is not a duration" in weft("history", "--since", "x", code=2).err


def test_hostile_text_is_shown_not_obeyed(weft: Weft, tmp_path: Path) -> None:
    odd = tmp_path / "\x1b]0;title\x07"
    odd.mkdir()
    job = weft.submit("--param", "x=\x1b[2J\r\n", "--chdir", str(odd), "--", "echo", "\x1b[31mred\u202e")
    weft("wait", job)
    shown = weft("show", job).out
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "x=\\x1b[2J\\r\\n" in shown
    assert "\\u202e" in shown
    assert weft.show(job)["params"] == {"x": "\x1b[2J\r\n"}
    assert weft("logs", job).out == "\x1b[31mred\u202e\n", "in a pipe, what it wrote"


def test_a_directory_that_is_gone(weft: Weft, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    assert "the current directory no longer exists" in weft("submit", "--", "true", code=2).err
