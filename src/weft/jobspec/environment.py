"""Which of the submitter's variables a job is given: those that programs need to find things, and nothing secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from weft.errors import InputError
from weft.wire.convert import variables
from weft.wire.messages import Variable

NAMES: Final = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LIBRARY_PATH",
    "CPATH", "PKG_CONFIG_PATH", "VIRTUAL_ENV", "NODE_PATH", "JAVA_HOME", "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH",
    "CUDNN_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "http_proxy",
    "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "MODULEPATH", "LOADEDMODULES",
}  # fmt: skip
PREFIXES: Final = (
    "LC_", "XDG_", "PYTHON", "CONDA_", "MAMBA_", "PYENV_", "UV_", "HF_", "TRANSFORMERS_", "TORCH", "WANDB_", "MLFLOW_",
    "NCCL_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "NUMBA_", "TF_", "XLA_", "JAX_", "TRITON_", "TOKENIZERS_", "MPL",
)  # fmt: skip
OF_A_MACHINE: Final = (NAMES - {"LANG", "LANGUAGE", "TZ"}) | {
    "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "HF_HOME", "TORCH_HOME",
}  # fmt: skip
OF_A_MACHINE_PREFIXES: Final = ("XDG_", "CONDA_", "MAMBA_", "PYENV_", "UV_")
"""Where things are on one machine: on another they say nothing, or something wrong."""
OF_A_SESSION: Final = {
    "PWD", "OLDPWD", "HOSTNAME", "DISPLAY", "MAIL", "TERM", "_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
}  # fmt: skip
OF_A_SESSION_PREFIXES: Final = ("SSH_", "DBUS_", "TMUX", "SYSTEMD_")
"""What means nothing outside of where it was set."""
_SECRET: Final = re.compile(
    r"SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|(?:^|_)(?:TOKEN|KEY|PWD|PASS|AUTH)(?:_|$)|APIKEY", re.IGNORECASE
)
_CREDENTIALS_IN_URL: Final = re.compile(r"://[^/@\s]*@")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def looks_secret(name: str, value: str = "") -> bool:
    return bool(_SECRET.search(name) or _CREDENTIALS_IN_URL.search(value))


def belongs_to_machine(name: str) -> bool:
    """A job on another machine gets that machine's, unless its submitter says it in so many words."""
    return name in OF_A_MACHINE or name.startswith(OF_A_MACHINE_PREFIXES)


def captured(env: Mapping[str, str], *, everything: bool = False, elsewhere: bool = False) -> list[Variable]:
    """What a job is given of this environment; what is not text, or has an odd name, stays behind.

    With `elsewhere`, it runs on some other machine: what belongs to this one stays behind, even of `everything`.
    """
    return variables(
        (name, value)
        for name, value in env.items()
        if (everything or _is_wanted(name, value)) and _is_plain(name) and _is_text(value)
        if not (elsewhere and _stays(name))
    )


def _stays(name: str) -> bool:
    return belongs_to_machine(name) or name in OF_A_SESSION or name.startswith(OF_A_SESSION_PREFIXES)


def _is_wanted(name: str, value: str) -> bool:
    return (name in NAMES or name.startswith(PREFIXES)) and not looks_secret(name, value)


def _is_plain(name: str) -> bool:
    """Nor what the scheduler told the job that submits this one: it is told its own."""
    return _PLAIN.fullmatch(name) is not None and not name.startswith("WEFT_")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def completed(given: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """Of `NAME=VALUE` and `NAME`: the second as it is here."""
    found = []
    for text in given:
        if "=" not in text and text not in env:
            raise InputError(f"there is no variable {text[:80]!r} here", hint="write NAME=VALUE, or set it first")
        found.append(text if "=" in text else f"{text}={env[text]}")
    return found
