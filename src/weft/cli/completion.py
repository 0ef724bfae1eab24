"""Completion for shells, made of the commands and flags there are. Job ids are asked for as they are needed."""

from __future__ import annotations

from typing import Final

from weft.cli.main import COMMANDS, options_of, parser_of

TAKE_JOBS: Final = ("show", "why", "logs", "attach", "wait", "cancel", "hold", "release", "set", "restart", "clean")
JOBS: Final = "weft queue -o id --no-header --color never 2>/dev/null"


def words() -> dict[str, list[str]]:
    """What may follow each command: its actions, its choices, its flags."""
    found = {}
    for name in COMMANDS:
        parser = parser_of(name)
        choices = [word for action in parser._actions if not action.option_strings for word in action.choices or ()]
        found[name] = [*choices, *options_of(parser)]
    return found


def _named(name: str) -> str:
    """The command with its aliases, as shells write alternatives."""
    return "|".join((name, *COMMANDS[name].aliases))


def _all_names() -> str:
    return " ".join(word for name, command in COMMANDS.items() for word in (name, *command.aliases))


def bash() -> str:
    cases = "\n".join(f'        {_named(name)}) words="{" ".join(flags)}" ;;' for name, flags in words().items())
    jobs = "|".join(_named(name) for name in TAKE_JOBS)
    return f"""# bash completion for weft
_weft() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{_all_names()}" -- "$cur"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    if [[ "$cur" != -* ]]; then
        case "${{COMP_WORDS[1]}}" in
        {jobs}) words="$({JOBS})" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [ "${{#COMPREPLY[@]}}" -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -o filenames -F _weft weft
"""


def zsh() -> str:
    commands = "\n".join(
        f"        '{word}:{command.summary}'"
        for name, command in COMMANDS.items()
        for word in (name, *command.aliases)
    )  # fmt: skip
    cases = "\n".join(f"        {_named(name)}) flags=({' '.join(flags)}) ;;" for name, flags in words().items())
    jobs = "|".join(_named(name) for name in TAKE_JOBS)
    return f"""#compdef weft
# zsh completion for weft
_weft() {{
    local -a commands flags
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case "$words[2]" in
{cases}
    esac
    if [[ "$PREFIX" != -* ]]; then
        case "$words[2]" in
        {jobs}) flags=(${{(f)"$({JOBS})"}}); flags=(${{flags// /}}) ;;
        *) _files ;;
        esac
    fi
    compadd -- $flags
}}
compdef _weft weft
"""


def fish() -> str:
    lines = ["# fish completion for weft", "complete -c weft -n __fish_use_subcommand -f"]
    for name, command in COMMANDS.items():
        lines += [
            f"complete -c weft -n __fish_use_subcommand -f -a {word} -d '{command.summary}'"
            for word in (name, *command.aliases)
        ]
    for name, flags in words().items():
        seen = f"'__fish_seen_subcommand_from {' '.join((name, *COMMANDS[name].aliases))}'"
        lines += [f"complete -c weft -n {seen} {_fish_word(flag)}" for flag in flags]
        if name in TAKE_JOBS:
            lines.append(f"complete -c weft -n {seen} -f -a '({JOBS} | string trim)'")
    return "\n".join(lines) + "\n"


def _fish_word(word: str) -> str:
    if word.startswith("--"):
        return f"-l {word[2:]}"
    return f"-s {word[1:]}" if word.startswith("-") else f"-f -a {word}"
