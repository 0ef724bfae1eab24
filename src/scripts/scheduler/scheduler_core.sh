#!/bin/sh
# Finds Weft, which has all the scheduling logic, and runs it. The other scripts read this file.
# Called by itself, it passes its arguments on: scheduler_core.sh --dir WORKSPACE_DIR COMMAND [ARGS]
#
# Extensions need no edit here; set a key in scheduler_config.yml:
#   parse_config()     config_parser: module:function
#   start_job()        pre_command: a line of shell before the command
#   tmux sessions      session_backend: module:Class
run_weft() {
    weft_project=$(CDPATH='' cd -- "$weft_scripts/../../.." && pwd) || exit 1
    if [ -x "$weft_project/.venv/bin/weft" ]; then exec "$weft_project/.venv/bin/weft" workspace "$@"; fi
    if command -v weft >/dev/null 2>&1; then exec weft workspace "$@"; fi
    echo "weft is not installed: run make setup in $weft_project, or put weft on PATH" >&2
    exit 127
}

case ${0##*/} in
    scheduler_core.sh)
        weft_scripts=$(dirname -- "$(readlink -f -- "$0")")
        run_weft "$@"
        ;;
esac
