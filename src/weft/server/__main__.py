"""`python -m weft.server`: a scheduler. With the plan of a cluster's server as JSON, `cluster_main`; else `local_main`.

`weft server` becomes the former, the commands of one machine start the latter.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace

from weft.access.client.quiet_grpc import load_grpc
from weft.access.server.plan import Plan, ServerStatus
from weft.errors import WeftError, missing_package, report_of
from weft.text import escape_lines

INTERRUPTED = 130


def run_cluster(plan: Plan) -> int:
    load_grpc()
    from weft.server import cluster_main
    from weft.server.process import allocator

    allocator.tune()
    plan = replace(plan, on_message=_report, on_ready=lambda opened: _print_status(plan, opened))
    try:
        cluster_main.run(plan)
    except WeftError as error:
        return _report_error(error)
    except ModuleNotFoundError as error:
        if (missing := missing_package(error)) is None:
            raise
        return _report_error(missing)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _print_status(plan: Plan, opened: ServerStatus) -> None:
    """Print where the server listens and keeps its files; on a terminal, also how to end it."""
    from weft.server.announcement import lines_of

    with suppress(OSError):  # the reader of a pipe has ended; the server has not
        for name, value in lines_of(plan, opened):
            print(f"  {name:<9}{value}")
        if sys.stdout.isatty():
            print("Ctrl-C ends it; jobs continue, and the next server finds them.")
        sys.stdout.flush()


def _report_error(error: WeftError) -> int:
    report = report_of(error)
    _report(f"weft: error: {report.message}" + (f"\n  {report.hint}" if report.hint else ""))
    return report.exit_code


def _report(text: str) -> None:
    with suppress(OSError):
        print(escape_lines(text), file=sys.stderr, flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) == 1:
        sys.exit(run_cluster(Plan.from_json(words[0])))
    from weft.server.local_main import main

    sys.exit(main(words))
