#!/bin/sh
# Runs the configs of this folder with Weft, which has all the logic: ./scheduler.sh help
# Copy this file to WORKSPACE_DIR/scheduler.sh. It uses weft on PATH, else the project that contains the workspace.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
if [ ! -e "$here/scheduler_config.yml" ] && [ -h "$0" ]; then here=$(dirname -- "$(readlink -f -- "$0")"); fi
case ${1-} in *.yml | *.yaml) config=$1 && shift && set -- --config "$config" "$@" ;; esac
if command -v weft >/dev/null 2>&1; then exec weft workspace --dir "$here" "$@"; fi
project=${WEFT_PROJECT:-$here}
while [ "$project" != / ]; do
    core=$project/src/scripts/scheduler/scheduler_core.sh
    if [ -x "$core" ]; then exec "$core" --dir "$here" "$@"; fi
    project=$(dirname -- "$project")
done
echo "weft is not on PATH: install it, or set WEFT_PROJECT to the folder of the project" >&2
exit 127
