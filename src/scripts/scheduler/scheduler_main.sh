#!/bin/sh
# The scheduler of a workspace: scheduler_main.sh CONFIG_FILE WORKSPACE_DIR COMMAND [ARGS]
weft_scripts=$(dirname -- "$(readlink -f -- "$0")")
. "$weft_scripts/scheduler_core.sh"
if [ $# -lt 2 ]; then
    echo "usage: scheduler_main.sh CONFIG_FILE WORKSPACE_DIR COMMAND [ARGS]" >&2
    echo "  such as scheduler_main.sh my/workspace/scheduler_config.yml my/workspace status" >&2
    exit 2
fi
config=$1 workspace=$2
shift 2
run_weft --dir "$workspace" --config "$config" "$@"
