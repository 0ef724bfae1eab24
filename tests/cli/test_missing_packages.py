"""Parts of Weft whose extras are not installed: one clear message, and the rest works."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from weft.errors import EXTRAS, MissingPackage, missing_package

CALL = """
import sys
sys.modules[sys.argv.pop(1)] = None  # as if it were not installed
from weft.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("matplotlib", ("compare", "demo", "--policies", "fifo,srtf", "--out", "{folder}/report")),
        ("textual", ("sim", "demo", "--watch")),
        ("starlette", ("web", "--port", "0")),
        ("uvicorn", ("web", "--port", "0")),
        ("httptools", ("load", "http://127.0.0.1:9/", "--rps", "1", "--duration", "1s")),
        ("prometheus_client", ("server", "--port", "0", "--metrics-port", "0")),
    ],
)
def test_a_command_names_the_package_and_its_extra(
    package: str, words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("state")
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(folder))
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))  # for processes that the command starts or becomes
    command = [sys.executable, "-c", CALL, package, *(word.format(folder=folder) for word in words)]
    if "--watch" in words:  # a screen needs a terminal
        command = ["script", "--quiet", "--return", "--command", shlex.join(command), "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = (done.stdout + done.stderr).replace("\r\n", "\n")
    assert f"weft: error: this needs {package}, which is not installed" in said
    assert f"pip install 'weft[{EXTRAS[package]}]'" in said
    assert "Traceback" not in said
    assert done.returncode == 1


def test_other_modules_are_faults_of_weft() -> None:
    assert missing_package(ModuleNotFoundError(name="weft.nothing")) is None
    assert isinstance(missing_package(ModuleNotFoundError(name="matplotlib.figure")), MissingPackage)
