#!/bin/sh
# Run a workspace of real training scripts on the CPU, in a directory that is removed at the end: two declared GPUs, two
# tasks on each, six configs. A separate tmux server shows them.
set -eu
cd "$(dirname "$0")"
there=$(mktemp -d /tmp/weft-tour-XXXXXX)
export XDG_STATE_HOME="$there/state" XDG_RUNTIME_DIR="$there/run" TMUX_TMPDIR="$there"
unset TMUX
trap 'weft down --kill -y >/dev/null 2>&1 || true; tmux kill-server >/dev/null 2>&1 || true; rm -rf "$there"' EXIT
trap 'exit 130' INT TERM
cp -R . "$there/rates"
cd "$there/rates"
weft workspace template wrapper > scheduler.sh && chmod +x scheduler.sh

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show ./scheduler.sh start
sleep 2.5
show ./scheduler.sh status
if command -v tmux >/dev/null; then show tmux list-sessions -F '#{session_name}'; fi
sleep 3
show ./scheduler.sh status
show weft wait slow middle fast faster wild careful
show ./scheduler.sh status
show tail -n 2 logs/train_logs/fast.log
show cat out/fast_completed.txt out/wild_completed.txt
show ./scheduler.sh start
weft down >/dev/null 2>&1
