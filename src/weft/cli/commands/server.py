"""Run the scheduler of a cluster in the foreground, until Ctrl-C or SIGTERM. Jobs continue without it for a while.

The scheduler saves its settings: a start without flags uses the last ones."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli import flags, sigterm
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.access.endpoints.addresses import Address
    from weft.access.server.plan import PageAt

EXAMPLE: Final = """examples:
  weft server
  weft server --port 50051 --policy srsf --metrics-port 9100
  weft auth init --host gpu-head && weft server --host 0.0.0.0
  weft server --max-gpus-per-user 16 --max-queued-per-user 1000"""
MAX_LEASE_S: Final = 7 * 86400.0
MAX_LEADER_LEASE_S: Final = 600.0


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--port", metavar="N", type=flags.whole_number(), default=50051, help="port to listen on (50051); 0: a free one"
    )
    add(
        "--host",
        metavar="HOST",
        default="127.0.0.1",
        help="address to listen on (127.0.0.1); others need weft auth init",
    )
    add("--policy", metavar="P", type=flags.plugin, help="policy: NAME[:option=value...], see weft policies (balanced)")
    add("--placement", metavar="P", type=flags.plugin, help="placement (default: the policy's)")
    add("--restore", action="store_true", help="replace a damaged journal by its last backup, unless it has more facts")
    add("--db", metavar="PATH", help="journal: a path or a URL (state.db in the server's folder)")
    add(
        "--peers",
        metavar="A,B",
        help="with --db postgresql://...: all servers on that database, HOST:PORT each, this one included",
    )
    add("--blobs", metavar="DIR", help="folder of uploaded files, if all servers share one (default: the database)")
    add("--leader-lease", metavar="S", type=float, help="how long a silent leader of several servers leads (10)")
    add(
        "--schedule-interval",
        metavar="S",
        type=flags.seconds_or_zero,
        help="schedule in rounds of S seconds; 0: at every event",
    )
    add("--lease", metavar="S", type=float, help="how long a worker may be disconnected before its jobs are lost (600)")
    add("--replica-lease", metavar="S", type=float, help="how long before its replicas get substitutes (10)")
    add(
        "--router",
        metavar="ADDR",
        help="HOST[:PORT] of the router that starts with the first service (the host of the server, port 8080 or a "
        "free one); off: none",
    )
    flags.add_preemption_limits(parser)
    _add_limits(parser)
    _add_pages_and_log(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--max-gpus-per-user",
        metavar="N",
        type=flags.whole_number(),
        help="GPUs that the jobs of one user may hold; 0: no limit",
    )
    add(
        "--max-queued-per-user",
        metavar="N",
        type=flags.whole_number(),
        help="waiting and running jobs of one user; 0: no limit",
    )
    add(
        "--max-cpu-per-user",
        metavar="SHARE",
        type=flags.share_or_zero,
        help="what the requests of one user may take of the server's core on average (0.25); 0: no limit",
    )


def _add_pages_and_log(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--metrics-port",
        metavar="N",
        type=flags.whole_number(),
        help="serve /metrics, /healthz, /readyz on this port; 0: a free one",
    )
    add(
        "--metrics-host",
        metavar="HOST",
        help="address of these pages (127.0.0.1); others need weft auth init, and readers need a token",
    )
    add(
        "--web-port",
        metavar="N",
        type=flags.whole_number(high=65535),
        help="serve the web page on this port; 0: a free one",
    )
    add(
        "--web-host",
        metavar="HOST",
        help="address of the web page (127.0.0.1); others need weft auth init",
    )
    add("--web-read-only", action="store_true", help="the web page changes nothing")
    add("--web-name", metavar="NAME", action="append", default=[], help="host name by which browsers reach the page")
    add(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of the log, server.log in the server's folder",
    )
    add("--log-stderr", action="store_true", help="also write the log to stderr")


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.paths import server_folder
    from weft.access.server.plan import LEADER_LEASE_S, Plan, own_address
    from weft.access.server.settings import changed, saved_settings

    if args.port > 65535 or (args.metrics_port or 0) > 65535:
        raise InputError("ports go from 1 to 65535", hint="for example 50051")
    if args.metrics_host is not None and args.metrics_port is None:
        raise InputError("--metrics-host needs --metrics-port", hint="such as --metrics-port 9100")
    page = _page(args)
    if not args.port:
        args.port = _free_port()
    folder = server_folder(args.port)
    settings = changed(saved_settings(folder), **_flags(args))
    plan = Plan(
        folder, args.host, args.port, settings, _journal_url(args.db), args.metrics_port,
        args.metrics_host or "127.0.0.1", args.log_format, args.log_stderr, _router(args),
        _flags(args), _peers(args), LEADER_LEASE_S if args.leader_lease is None else args.leader_lease,
        os.path.abspath(args.blobs) if args.blobs else "",
        page, args.restore,
    )  # fmt: skip
    own_address(plan, plan.port)  # refuses peers that do not name this server
    return _become_server(plan.to_json())


def _become_server(plan: str) -> int:
    """Go on as the server, with glibc's allocator unless another is chosen: Python reads the choice only once."""
    command, env = [sys.executable, "-P", "-m", "weft.server", plan], dict(os.environ)  # -P: no modules of this folder
    if "CS_GNU_LIBC_VERSION" in os.confstr_names and not env.get("PYTHONMALLOC"):
        env["PYTHONMALLOC"] = "malloc"
    if sys.argv[1:2] == ["server"]:  # the process is ours
        if sigterm.was_received():  # an import swallowed it
            raise sigterm.Terminated
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execve(sys.executable, command, env)
    return subprocess.call(command, env=env)


def _router(args: argparse.Namespace) -> Address | None:
    """Return where the router of services listens; None: none is started."""
    from weft.access.endpoints.addresses import Address, parse_address

    if args.router == "off":
        return None
    given = args.router or args.host
    has_port = given.rpartition(":")[2].isdecimal() and given.count(":") == 1
    return parse_address(given, "--router") if has_port else Address(given, 0)


def _page(args: argparse.Namespace) -> PageAt | None:
    from weft.access.server.plan import PageAt

    if args.web_port is not None:
        return PageAt(args.web_host or "127.0.0.1", args.web_port, args.web_read_only, tuple(args.web_name))
    if args.web_host is not None or args.web_read_only or args.web_name:
        raise InputError("--web-host, --web-read-only and --web-name need --web-port", hint="such as --web-port 8765")
    return None


def _journal_url(given: str | None) -> str:
    if not given or "://" in given:
        return given or ""
    return str(Path(given).absolute())


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _flags(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings that were given; the others keep their saved values."""
    return {key: value for key, value in _given(args).items() if value is not None}


def _peers(args: argparse.Namespace) -> tuple[Address, ...]:
    from weft.access.endpoints.addresses import parse_address
    from weft.history.journal import is_postgres

    if args.leader_lease is not None and not 1.0 <= args.leader_lease <= MAX_LEADER_LEASE_S:
        raise InputError(
            f"--leader-lease: {args.leader_lease:g} s is out of range", hint=f"give 1 to {MAX_LEADER_LEASE_S:.0f} s"
        )
    if (args.peers or args.leader_lease is not None) and not is_postgres(args.db or ""):
        flag = "--peers" if args.peers else "--leader-lease"
        raise InputError(f"{flag} needs a database that all servers share", hint="add --db postgresql://USER@HOST/NAME")
    return tuple(parse_address(each, "--peers") for each in args.peers.split(",")) if args.peers else ()


def _given(args: argparse.Namespace) -> dict[str, object]:
    for flag, lease_s in (("--lease", args.lease), ("--replica-lease", args.replica_lease)):
        if lease_s is not None and not 1.0 <= lease_s <= MAX_LEASE_S:
            raise InputError(f"{flag}: {lease_s:g} s is out of range", hint=f"give 1 to {MAX_LEASE_S:,.0f} s")
    return {
        "policy": args.policy, "placement": args.placement, "interval_s": args.schedule_interval,
        "lease_s": args.lease, "replica_lease_s": args.replica_lease,
        "min_run_s": args.min_run, "max_preemptions": args.max_preemptions,
        "max_gpus_per_user": args.max_gpus_per_user,
        "max_queued_per_user": args.max_queued_per_user, "max_cpu_per_user": args.max_cpu_per_user,
    }  # fmt: skip
