"""The environment of a job: the submitter's variables that programs need to find files, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from weft.access.wire.convert import variables
from weft.access.wire.messages import Variable
from weft.errors import InputError

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
MACHINE_NAMES: Final = (NAMES - {"LANG", "LANGUAGE", "TZ"}) | {
    "PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "HF_HOME", "TORCH_HOME",
}  # fmt: skip
MACHINE_PREFIXES: Final = ("XDG_", "CONDA_", "MAMBA_", "PYENV_", "UV_")
"""Variables with paths of one machine, which are wrong on another."""
SESSION_NAMES: Final = {
    "PWD", "OLDPWD", "HOSTNAME", "DISPLAY", "MAIL", "TERM", "_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
}  # fmt: skip
SESSION_PREFIXES: Final = ("SSH_", "DBUS_", "TMUX", "SYSTEMD_")
"""Variables that are valid only in the login session that set them."""
_SECRET: Final = re.compile(
    r"SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|(?:^|_)(?:TOKEN|KEY|PWD|PASS|AUTH)(?:_|$)|APIKEY", re.IGNORECASE
)
_CREDENTIALS_IN_URL: Final = re.compile(r"://[^/@\s]*@")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def looks_secret(name: str, value: str = "") -> bool:
    return bool(_SECRET.search(name) or _CREDENTIALS_IN_URL.search(value))


def belongs_to_machine(name: str) -> bool:
    """Return whether the variable describes a machine: a job elsewhere gets the value of its node by default."""
    return name in MACHINE_NAMES or name.startswith(MACHINE_PREFIXES)


def capture(env: Mapping[str, str], *, everything: bool = False, elsewhere: bool = False) -> list[Variable]:
    """Return the variables of this environment that a job gets. Odd names and values that are not text are left out.

    With `elsewhere`, the job runs on another machine: variables of this machine are left out, even with `everything`.
    """
    return variables(
        (name, value)
        for name, value in env.items()
        if (everything or _is_wanted(name, value)) and _is_plain(name) and _is_text(value)
        if not (elsewhere and _is_local(name))
    )


def _is_local(name: str) -> bool:
    return belongs_to_machine(name) or name in SESSION_NAMES or name.startswith(SESSION_PREFIXES)


def _is_wanted(name: str, value: str) -> bool:
    return (name in NAMES or name.startswith(PREFIXES)) and not looks_secret(name, value)


def _is_plain(name: str) -> bool:
    """Return whether the name is portable and not WEFT_*: a job that submits jobs must not pass on its own values."""
    return _PLAIN.fullmatch(name) is not None and not name.startswith("WEFT_")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def resolve_variables(given: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """Return `NAME=VALUE` for each text; a bare `NAME` gets its value in this environment."""
    found = []
    for text in given:
        if "=" not in text and text not in env:
            raise InputError(f"the variable {text[:80]!r} is not set here", hint="write NAME=VALUE, or set it first")
        found.append(text if "=" in text else f"{text}={env[text]}")
    return found
