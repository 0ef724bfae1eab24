"""`weft submit --config`: task files as people have them, and what is wrong with others."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from support.weft_cli import Weft

RESNET = """{"name": "ResNet50 Training", "required_gpus": 2, "min_gpu_memory": 8192, "params": {"model": "resnet50",
"dataset": "imagenet", "batch_size": "64", "learning_rate": "0.001", "epochs": "90", "optimizer": "sgd",
"momentum": "0.9", "weight_decay": "0.0001"}}"""


def write(text: str, name: str = "tasks.yaml") -> str:
    Path(name).write_text(text)
    return name


def test_the_task_file_of_the_distributed_scheduler(weft: Weft) -> None:
    script = "echo $WEFT_PARAM_EPOCHS {params.batch_size}; cat $WEFT_PARAMS_FILE; nvidia-smi -L 2>&1 | head -0"
    task = json.loads(RESNET) | {"command": ["sh", "-c", script]}
    job = weft.submit("--config", write(json.dumps(task), "task.json"))
    weft("wait", job)
    found = weft.show(job)
    assert (found["name"], found["gpus"], found["memory_mb"]) == ("ResNet50 Training", 2, 8192)
    first, second = weft("logs", job).out.split("\n", 1)
    assert first == "90 64"
    assert json.loads(second) == task["params"]


def test_a_task_without_a_command_runs_its_workload(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write(RESNET, "task.json")
    missing = weft.fails("submit", "--config", name, "--param", "model=resnet5000")
    assert "task.json:1: no command, and no workload for the model 'resnet5000'; registered: resnet50," in missing
    assert "weft submit --config FILE -- CMD" in missing
    Path("mine_weft.py").write_text("def run(params):\n    return ['echo', 'epochs', params['epochs']]\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))  # another path than that of other tests: plugins are read once
    points = [EntryPoint(model, f"mine_weft:{what}", "weft.workloads") for model, what in
              (("resnet50", "run"), ("vgg", "nothing"))]  # fmt: skip
    monkeypatch.setattr(
        "weft.scheduling.plugins.registry.entry_points", lambda group: EntryPoints(points).select(group=group)
    )
    job = weft.submit("--config", name)
    weft("wait", job)
    assert weft("logs", job).out == "epochs 90\n"
    assert weft("run", "--param", "model=resnet50", "--param", "epochs=4").out == "epochs 4\n"
    assert weft.show("@")["name"] == "resnet50", "not the name of its program"
    other = weft.fails("submit", "--config", name, "--param", "model=resnet")
    assert "no workload for the model 'resnet'; registered: resnet50, vgg" in other
    assert "the workload 'vgg' of mine_weft:nothing failed" in weft.fails(
        "submit", "--config", name, "--param", "model=vgg"
    )
    assert "no params.model" in weft.fails("submit", "--config", write("name: x"))


def test_the_task_file_of_the_distributed_scheduler_needs_no_command(weft: Weft) -> None:
    name = write(RESNET, "task.json")
    job = weft.submit("--hold", "--config", name)
    command = weft.show(job)["command"]
    assert command[:2] == ["sh", "-c"]
    assert " ".join(command[4:]) == (
        "--model resnet50 --dataset imagenet --batch-size 64 --learning-rate 0.001 --epochs 90 --optimizer sgd "
        "--momentum 0.9 --weight-decay 0.0001"
    )
    weft("cancel", job)
    wrong = weft.fails("submit", "--config", name, "--param", "batchsize=3")
    assert "task.json:1: unknown param of resnet50 'batchsize'\n  known: batch_size," in wrong
    assert "task.json:1: optimizer of resnet50 cannot be 'sgb'" in weft.fails(
        "submit", "--config", name, "--param", "optimizer=sgb"
    )
    assert weft.show(weft.submit("--hold", "--gpus", "0", "--config", name))["gpus"] == 0


def test_tasks_of_a_file_depend_on_any_end_and_on_a_failure(weft: Weft) -> None:
    text = "- {name: one, command: 'false', gpus: 0}\n"
    text += "- {name: clean, command: 'true', gpus: 0, after: 'afterany:one'}\n"
    text += "- {name: mend, command: 'true', gpus: 0, after: ['afternotok:#0', 'afterany:clean']}\n"
    text += "- {name: mend, command: 'true', gpus: 0, after: singleton}\n"
    ids = weft.submit("--config", write(text)).split()
    weft("wait", *ids, code=1)
    assert [weft.show(job)["status"] for job in ids] == ["failed", "done", "done", "done"]
    assert [weft.show(job)["after"] for job in ids[1:]] == [
        [f"afterany:{ids[0]}"], [f"afterany:{ids[1]}", f"afternotok:{ids[0]}"], [f"afterany:{ids[2]}"],
    ]  # fmt: skip


def test_a_command_on_the_command_line_is_that_of_the_file(weft: Weft) -> None:
    name = write(RESNET, "task.json")
    job = weft.submit("--config", name, "--", "sh", "-c", "echo $WEFT_PARAM_EPOCHS", "{params.epochs}")
    weft("wait", job)
    assert (weft.show(job)["name"], weft("logs", job).out) == ("ResNet50 Training", "90\n")
    assert weft.show(job)["command"][-1] == "90"
    own = write('{"command": ["false"], "name": "own"}', "own.json")
    said = weft("submit", "--config", own, "--", "true").err
    assert "the command on the command line overrides command in own.json:1" in said
    weft("wait", "own")
    two = write("- command: [echo]\n- command: [echo]\n")
    assert "tasks.yaml has 2 tasks, and one command is given" in weft.fails("submit", "--config", two, "--", "true")


def test_a_list_of_tasks_that_come_after_each_other(weft: Weft) -> None:
    text = """
- {name: prep, command: [echo, prep], gpus: 0}
- name: train
  command: echo {params.lr}
  params: {lr: $(touch evil), epochs: 3}
  after: prep
  hold: True
- {command: [echo, eval], after: ["train", "#0"], max-jobs-per-gpu: 2, requeue_exit: [85, 75], env: {A: b}}
"""
    found = weft.json("submit", "--config", write(text))
    prep, train, last = found["ids"]
    assert [job["name"] for job in found["jobs"]] == ["prep", "train", "echo"]
    assert weft.show(last)["after"] == [train, prep]
    weft("release", "train")
    weft("wait", last)
    assert weft("logs", train).out == "$(touch evil)\n"
    assert [path.name for path in Path().iterdir()] == ["tasks.yaml"]


def test_flags_win_over_the_file_and_say_so(weft: Weft) -> None:
    name = write("command: [echo, '{params.a}{params.b}']\ngpus: 2\nparams: {a: 1, b: 2}\n")
    out, err = weft("submit", "--config", name, "--gpus", "1", "--param", "b=3", "--name", "other")
    assert err.splitlines() == [
        "weft: --gpus on the command line overrides gpus in tasks.yaml:2",
        "weft: --param b on the command line overrides tasks.yaml:3",
    ]
    job = out.split()[2]
    weft("wait", job)
    assert (weft.show(job)["gpus"], weft.show("other")["id"], weft("logs", job).out) == (1, job, "13\n")


def test_standard_input_and_json_as_others_write_it(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = '[\n\t{"command": ["echo", "\\ud83d\\ude00 \\/"],\n\t"time": 90, "hold": false}\n]\n'
    job = weft.submit("--config", write("\ufeff" + tasks, "task.json"))
    weft("wait", job)
    assert weft("logs", job).out == "😀 /\n"
    with open("task.json") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert weft.submit("--config", "-") == str(int(job) + 1)


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ncommand: *c\n"
WRONG = {
    "a YAML bomb": (BOMB, "tasks.yaml:1: anchors (&name) and aliases (*name) are not accepted"),
    "an unknown key": ("command: [echo]\ngpuz: 2\n", "tasks.yaml:2: unknown key of a task 'gpuz'\n  the nearest is"),
    "an unknown key of JSON": ('{"command": ["echo"],\n\t"gpuz": 2}', "tasks.yaml:2: unknown key of a task 'gpuz'"),
    "a key twice": ("gpus: 1\ngpus: 2\n", "tasks.yaml:2: key 'gpus' occurs twice"),
    "a key by two names": ("gpus: 1\nrequired_gpus: 2\n", "tasks.yaml:2: required_gpus: given twice"),
    "a key twice in JSON": ('{"gpus": 1,\n "gpus": 2}', "tasks.yaml:2: key 'gpus' occurs twice"),
    "not a number": ("command: [echo]\ngpus: two\n", "tasks.yaml:2: gpus: 'two' is not a whole number"),
    "not a number in JSON": ('{"command": ["echo"],\n"gpus": "two"}', "tasks.yaml:2: gpus: 'two' is not a whole"),
    "an absurd number": ("gpus: 1e400\ncommand: x\n", "tasks.yaml:1: gpus: '1e400' is not a whole number"),
    "negative": ("gpus: -1\ncommand: x\n", "tasks.yaml:1: gpus: '-1' is not a whole number"),
    "too large": ("memory: 99999999999999999999\ncommand: x\n", "tasks.yaml:1: memory: "),
    "nothing": ("", "tasks.yaml:1: an empty file"),
    "no task": ("[]", "tasks.yaml:1: no task in it"),
    "a number": ("[1]", "tasks.yaml:1: bad [0]: '1'"),
    "not YAML": ("a: [\n", "tasks.yaml:2: not YAML"),
    "a control character": ("a: \x01\n", "tasks.yaml:1: not YAML: a control character"),
    "too deep": ("[" * 100_000, "tasks.yaml:1: nested too deeply"),
    "a name with a newline": ('command: x\nname: "a\\nb"\n', "tasks.yaml:2: name: 'a\\nb' cannot be a name"),
    "a name with an escape code": ('name: "\\e[31m"\n', "tasks.yaml:1: name: '\\x1b[31m' cannot be a name"),
    "a name with a slash": ("name: ../a\n", "tasks.yaml:1: name: '../a' cannot be a name"),
    "a list of lists": ("command: [[echo]]\n", "tasks.yaml:1: bad command[0]: a list"),
    "an object in a param": ("params: {a: {b: c}}\ncommand: x\n", "tasks.yaml:1: bad params.a: a mapping"),
    "an odd param": ("params: {'a b': c}\ncommand: x\n", "tasks.yaml:1: params: 'a b' cannot be the name of a param"),
    "an empty command": ("command: []\n", "tasks.yaml:1: command: it is empty"),
    "a number as the command": ("gpus: 1\ncommand: 5\n", "tasks.yaml:2: bad command: '5'"),
    "a number as the command in JSON": ('{"gpus": 1,\n"command": 5}', "tasks.yaml:2: bad command: '5'"),
    "a fraction as the command in JSON": ('[{"command": 5.5}]', "tasks.yaml:1: bad [0].command: '5.5'"),
    "a name that is a reference": ("command: [echo]\nname: '7'\n", "tasks.yaml:2: name: '7' cannot be a name"),
    "null": ("command: null\n", "tasks.yaml:1: bad command: 'null'"),
    "NUL": ('command: ["a\\0b"]\n', "tasks.yaml:1: command: a NUL character"),
    "a missing param": ("gpus: 1\ncommand: x {params.y}\n", "tasks.yaml:2: command: unknown param 'y'"),
    "a missing program": ("- command: [echo]\n- gpus: 1\n  command: [nosuch]\n", "tasks.yaml:3: command: there is no"),
    "too many GPUs": ("- command: [echo]\n- name: big\n  command: [echo]\n  gpus: 3\n", "tasks.yaml:2: big: it needs"),
    "too much memory": ("command: [echo]\nmemory: 1T\n", "tasks.yaml:1: it needs 1 GPU with 1,048,576 MB"),
    "no such GPU": ("command: [echo]\ngpu_ids: [0, 7]\n", "tasks.yaml:2: gpu_ids: there is no GPU 7"),
    "no such dependency": ("command: [echo]\nafter: nope\n", "tasks.yaml:2: after: there is no job 'nope'"),
    "no such task": ("command: [echo]\nafter: '#1'\n", "tasks.yaml:2: after: '#1' is not one of this request"),
    "after itself": ("command: [echo]\nname: me\nafter: me\n", "tasks.yaml:3: after: cyclic dependencies: me after me"),
    "a profile of nothing": ("command: [echo]\nprofile: {data: 0, gpu: 0}\n", "tasks.yaml:2: profile: the profile has"),
    "a negative profile": ('{"command": ["echo"],\n"profile": {"gpu": -1}}', "yaml:2: profile: the profile's gpu is"),
    "a profile of no number": ("command: [echo]\nprofile: {gpu: nan}\n", "yaml:2: profile: the profile's gpu is nan"),
    "a profile of words": ("command: [echo]\nprofile: {gpu: fast}\n", "tasks.yaml:2: profile: gpu is 'fast', not"),
    "an unknown stage": ("command: [echo]\nprofile: {cpu: 1}\n", "tasks.yaml:2: profile: a profile has no 'cpu'"),
    "a circle": (
        "- {name: a, command: [echo], after: c}\n- {name: b, command: [echo], after: a}\n"
        "- {name: c, command: [echo], after: b}\n",
        "tasks.yaml:1: a: after: cyclic dependencies: a after c after b after a",
    ),
    "no folder for the output": (
        "- {name: a, command: [echo]}\n- {name: b, command: [echo], output: missing/b.log}\n",
        "tasks.yaml:2: b: output: there is no folder ",
    ),
    "a name of two": (
        "- {name: a, command: [echo]}\n- {name: a, command: [echo]}\n- {command: [echo], after: a}\n",
        "tasks.yaml:3: after: 2 tasks of the file are called 'a'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_queues_nothing(weft: Weft, text: str, expected: str) -> None:
    assert expected in weft.fails("submit", "--config", write(text))


def test_a_workload_that_is_not_installed_queues_nothing(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    message = weft.fails("submit", "--config", write("- {params: {model: resnet18, steps: 1}}\n"))
    assert "tasks.yaml:1: resnet18 needs torch" in message
    assert "pip install 'weft[workloads]'" in message


def test_files_that_are_none(weft: Weft) -> None:
    assert "nosuch.json: No such file" in weft.fails("submit", "--config", "nosuch.json")
    assert ".: Is a directory" in weft.fails("submit", "--config", ".")
    assert "more than 16 MB" in weft.fails("submit", "--config", "/dev/zero")
    Path("binary").write_bytes(b"\xff\xfe")
    error = json.loads(weft.fails("submit", "--json", "--config", "binary"))["error"]
    assert error == {"code": "input", "message": "binary: not UTF-8 text", "hint": "give a JSON or YAML file"}
