#!/bin/sh
# Creates a workspace, or with --force converts a folder: setup_workspace.sh WORKSPACE_DIR [--force]
weft_scripts=$(dirname -- "$(readlink -f -- "$0")")
. "$weft_scripts/scheduler_core.sh"
if [ $# -eq 0 ]; then
    echo "usage: setup_workspace.sh WORKSPACE_DIR [--force]" >&2
    exit 2
fi
run_weft init "$@"
