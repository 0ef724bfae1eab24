"""Print a script with which a shell completes commands, flags and job ids."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import render

EXAMPLE: Final = """examples:
  weft completion bash > ~/.local/share/bash-completion/completions/weft
  weft completion zsh > ~/.zfunc/_weft        # with fpath+=~/.zfunc before compinit
  weft completion fish > ~/.config/fish/completions/weft.fish"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    render.add_arguments(parser, json=False)


def run(args: argparse.Namespace) -> int:
    from weft.cli import completion

    print(completion.script(args.shell), end="")
    return 0
