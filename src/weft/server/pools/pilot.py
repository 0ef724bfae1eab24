"""The command that an allocation runs: a worker that knows its slot, its GPUs and its end."""

from __future__ import annotations

import os
import shlex

from weft.server.pools.provider import AllocationSpec

CREDENTIALS: str = "credentials"
"""The folder in the folder of a pool with the token of its workers, and the authority to trust."""


def worker_command(spec: AllocationSpec, *, slot: str = "", gpus: str = "allocated") -> list[str]:
    """Return the words of the worker. `slot` replaces the name of the node, such as a variable of a script.

    Empty `gpus`: the driver knows which GPUs belong to the allocation.
    """
    pool, slot = spec.pool, slot or spec.slot
    weft = shlex.split(pool.setting("weft")) or spec.site.weft
    words = [*weft, "worker", "--pilot", "--scheduler", spec.site.address, "--id", slot]
    if not pool.gpus:
        words += ["--gpus", "none"]
    elif gpus:
        words += ["--gpus", gpus, *(["--models", pool.model] if pool.model else []), "--memories", str(pool.memory_mb)]
    words += ["--cpus", str(pool.cpus), "--mem", str(pool.ram_mb), "--labels", _labels(spec)]
    words += ["--leave-grace", f"{pool.leave_grace_s:g}", "--folder", os.path.join(spec.folder, "workers", slot)]
    return words


def _labels(spec: AllocationSpec) -> str:
    return ",".join(f"{name}={value}" for name, value in (("pool", spec.pool.name), *spec.pool.labels))


def shell_script(spec: AllocationSpec, *, slot: str, begin: str = "", more: str = "", gpus: str = "allocated") -> str:
    """Return a script that runs the worker of slot `slot`, a word of the shell, and starts it again if it is killed.

    `begin` are lines before the worker, `more` are further words of it. A worker that ends by itself ends the script.
    """
    mark = "__SLOT__"
    words = " ".join(_quote(word, mark, slot) for word in worker_command(spec, slot=mark, gpus=gpus))
    setup = spec.pool.setting("setup")
    return SCRIPT.format(
        pool=spec.pool.name,
        credentials=shlex.quote(os.path.join(spec.folder, CREDENTIALS)),
        setup=f"{setup}\n" if setup else "",
        begin=begin,
        command=f"{words}{more}",
    )


def _quote(word: str, mark: str, slot: str) -> str:
    return slot.join(shlex.quote(part) if part else "" for part in word.split(mark))


SCRIPT = """\
#!/bin/sh
# The pilot of the Weft pool {pool}: one worker for one allocation.
export WEFT_CREDENTIALS={credentials}
[ -d "${{XDG_RUNTIME_DIR:-/}}" ] || unset XDG_RUNTIME_DIR
{setup}{begin}told='' deaths=0
trap 'told=1; kill -TERM "$worker" 2>/dev/null' TERM INT
while :; do
  began=$(date +%s)
  {command} &
  worker=$!
  wait "$worker"
  code=$?
  while kill -0 "$worker" 2>/dev/null; do  # a signal has interrupted the wait
    wait "$worker"
    code=$?
  done
  # runs outlive a worker that was killed: another one finds them again
  [ -z "$told" ] && [ "$code" -gt 128 ] || exit "$code"
  [ $(($(date +%s) - began)) -ge 60 ] && deaths=0
  deaths=$((deaths + 1))
  echo "the worker was killed (code $code); death $deaths of 3" >&2
  [ "$deaths" -lt 3 ] || exit "$code"
done
"""
