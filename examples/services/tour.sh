#!/bin/sh
# Run a service next to a training job on two declared GPUs, in a directory that is removed at the end.
set -eu
cd "$(dirname "$0")"
there=$(mktemp -d /tmp/weft-tour-XXXXXX)
export XDG_STATE_HOME="$there/state" XDG_RUNTIME_DIR="$there/run"
unset WEFT_SCHEDULER WEFT_CONFIG
trap 'weft down --kill >/dev/null 2>&1 || true; rm -rf "$there"' EXIT
trap 'exit 130' INT TERM

show() {
    printf '\n$ weft'
    for word in "$@"; do case $word in *[!A-Za-z0-9_.,:=/@%~-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac; done
    printf '\n'
    weft "$@"
}

show up --gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576
show submit --name train --gpus 2 --share .4/.8 --memory 8G --param steps=600 -- python ../jobs/fit.py
show deploy hello.yaml
show call hello /first
show load hello --rps 60 --duration 4s
show services --replicas
show queue
show gpus
show undeploy hello
show down --kill
