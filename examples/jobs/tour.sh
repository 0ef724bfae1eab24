#!/bin/sh
# Run real jobs on this machine: a separate queue with two declared GPUs, in a directory that is removed at the end.
set -eu
cd "$(dirname "$0")"
there=$(mktemp -d /tmp/weft-tour-XXXXXX)
export XDG_STATE_HOME="$there/state" XDG_RUNTIME_DIR="$there/run"
trap 'weft down --kill >/dev/null 2>&1 || true; rm -rf "$there"' EXIT
trap 'exit 130' INT TERM

show() {
    printf '\n$ weft'
    for word in "$@"; do case $word in *[!A-Za-z0-9_.,:=/@%~-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac; done
    printf '\n'
    weft "$@"
}

show up --gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576 --min-run 0
show submit --name fit --gpus 2 --param steps=60 -- python fit.py
show submit --config sweep.yml
sleep 2
show queue
show submit --name urgent --gpus 1 --priority 10 -- sh -c 'echo I could not wait; sleep 2'
sleep 1
show queue
show why fit
show wait urgent
sleep 1
show queue
show wait fit sweep summary
show history
show logs --run 1 fit
show logs fit
show down
