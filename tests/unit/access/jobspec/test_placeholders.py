"""Params in commands: words get values, scripts get variables."""

from __future__ import annotations

import subprocess

import pytest

from weft.access.jobspec.placeholders import fill_in, param_variable
from weft.errors import InputError

HOSTILE = [
    "plain",
    "two words",
    "$(touch evil)",
    "`touch evil`",
    "'; touch evil; '",
    '"; touch evil; "',
    "a\nb",
    "*",
    "\\",
]
SCRIPTS = ["printf %s {params.x}", 'printf %s "{params.x}"', "printf %s '{params.x}'", "printf %s pre{params.x}",
           "printf %s \\'{params.x}", 'printf %s "it\'s {params.x}"', 'printf %s "$(printf %s "{params.x}")"',
           "eval true; printf %s '\"'{params.x}"]  # fmt: skip


def test_words_get_the_value_itself() -> None:
    assert fill_in(["echo", "--lr={params.lr}", "{params.lr}x{params.b}"], {"lr": "$(x)", "b": "'"}) == [
        "echo", "--lr=$(x)", "$(x)x'",
    ]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("shell", [["sh", "-c"], ["/bin/bash", "-ec"], ["env", "bash", "-c"]], ids=lambda s: s[0])
def test_nothing_in_a_value_is_run(
    shell: list[str], script: str, value: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    command = fill_in([*shell, script], {"x": value})
    env = {"PATH": "/usr/bin:/bin", param_variable("x"): value}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert not (folder / "evil").exists()
    if "$(" not in script:
        assert value in done.stdout


def test_a_script_with_one_quote_too_few_runs_nothing_either(tmp_path_factory: pytest.TempPathFactory) -> None:
    command = fill_in(["sh", "-c", "# don't\nprintf %s {params.x}"], {"x": "$(touch evil)"})
    env = {"PATH": "/usr/bin:/bin", param_variable("x"): "$(touch evil)"}
    folder = tmp_path_factory.mktemp("quotes")
    subprocess.run(command, env=env, cwd=folder, capture_output=True, check=False)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("params", "message"),
    [({}, "unknown param 'x'"), ({"y": ""}, "known: y"), ({"x": "", "X": ""}, "are both WEFT_PARAM_X")],
)
def test_what_cannot_be_filled_in(params: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fill_in(["sh", "-c", "echo {params.x}"], params)
