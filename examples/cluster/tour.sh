#!/bin/sh
# Bring up a cluster on this machine: two nodes with two declared GPUs each, in a directory that is removed at the end.
set -eu
there=$(mktemp -d /tmp/weft-tour-XXXXXX)
export XDG_STATE_HOME="$there/state" XDG_RUNTIME_DIR="$there/run" XDG_CONFIG_HOME="$there/config"
unset WEFT_SCHEDULER WEFT_CONFIG
port=$(python -c 'import socket; line = socket.create_server(("127.0.0.1", 0)); print(line.getsockname()[1])')
trap 'weft cluster down --yes --port "$port" >/dev/null 2>&1 || true; rm -rf "$there"' EXIT
trap 'exit 130' INT TERM

show() {
    printf '\n$ weft'
    for word in "$@"; do case $word in *[!A-Za-z0-9_.,:=/@%~-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac; done
    printf '\n'
    weft "$@"
}

show cluster up --nodes 2 --gpus-per-node 2 --port "$port"
export WEFT_SCHEDULER="localhost:$port"
cd "$there"
show submit --name gang --gpus 4 -- sh -c 'echo "node $WEFT_NODE_RANK of $WEFT_NUM_NODES: $WEFT_NODELIST"; until [ -e seen ]; do sleep 0.1; done'
show submit --name after --gpus 1 --after gang -- echo 'the gang is done'
until weft queue --format name,state --no-header | grep -q 'gang *R'; do sleep 0.1; done
show monitor --count 1
touch seen
show wait gang after
show logs --rank 1 gang
show logs after
show cluster down --port "$port"
