"""Run a command next to a running job: on its node, in its directory, with its environment and its GPUs.

The command has this terminal, and its exit code is returned. It is ended when the job ends. Next to a job on several
nodes, it runs on the first one, or on the one that --node names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags, render
from weft.cli.submit import task_flags

if TYPE_CHECKING:
    import subprocess

    from weft.access.client import Client
    from weft.views.answers.jobs import JobDetailView

EXAMPLE: Final = """examples:
  weft exec 7 -- nvidia-smi
  weft exec train -- bash
  weft exec --node n3 gang -- nvidia-smi"""
POLL_S: Final = 0.5
GRACE_S: Final = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft exec [flags] JOB -- CMD ARGS..."
    flags.add_jobs(parser, several=False)
    parser.add_argument("--node", metavar="NAME", default="", help="node of the job (default: its first one)")
    flags.add_common(parser, json=False)
    parser.add_argument("command", metavar="-- CMD ARGS...", nargs=argparse.REMAINDER, help="the command to run")


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.paths import Paths
    from weft.errors import InputError
    from weft.node.engine.shim.run_files import run_dir

    command = task_flags.strip_dashes(args.command)
    if not command:
        raise InputError("no command to run", hint="give it last: weft exec JOB -- CMD ARGS...")
    with connection.connect(args.scheduler) as client:
        job = _running_job(client, args.job)
        where = client.where
        if not isinstance(where, Paths):
            return _run_on_node(client, job, command, args.node)
        if args.node not in ("", *(node.node for node in client.nodes().nodes)):
            raise InputError(f"--node: job {job.id} does not run on {args.node!r}", hint="it runs on this machine")
    return _run_in(run_dir(str(where.jobs), job.id, job.run), job.id, command)


def _running_job(client: Client, ref: str) -> JobDetailView:
    from weft.errors import NotFound, Refused

    jobs = client.jobs([ref]).jobs
    if len(jobs) > 1:
        raise NotFound(f"{ref!r} names {len(jobs)} jobs\n  give the id of one of them")
    (job,) = jobs
    if job.status != "running":
        raise Refused(f"job {job.id} does not run: it is {job.status}\n  weft exec needs a running job")
    return job


def _run_on_node(client: Client, job: JobDetailView, command: list[str], node: str) -> int:
    """Run the command on the node of a cluster, in a terminal if this process has one."""
    import os

    from weft.access.client.terminals import Tunnel
    from weft.access.wire.messages import TerminalPart
    from weft.cli.submit.terminal import STDIN, relay, terminal_type
    from weft.errors import WeftError

    is_terminal = os.isatty(STDIN)
    terminal = terminal_type() if is_terminal else ""
    first = TerminalPart(job=job.id, run=job.run, command=command, terminal=terminal, node=node)
    tunnel = Tunnel(client.open_terminal, first)
    with tunnel.socket:
        relay(tunnel.socket, is_terminal=is_terminal)
    if tunnel.error is not None:
        raise tunnel.error
    if tunnel.exit_code is None:
        raise WeftError(f"the connection to the node of job {job.id} ended\n  weft show {job.id} may say why")
    return tunnel.exit_code


def _run_in(folder: str, job: str, command: list[str]) -> int:
    import os
    import subprocess

    from weft.errors import WeftError
    from weft.node.engine.shim import run_files
    from weft.node.engine.shim.containers import outer_directory
    from weft.node.engine.shim.launch import DEFAULT_PATH, NOT_EXECUTABLE, LaunchError, find_program

    spec = run_files.read_object(os.path.join(folder, run_files.SPEC))
    if spec is None:
        raise WeftError(f"the files of job {job} cannot be read: {folder}\n  weft doctor looks for problems")
    env = _environment(spec)
    if spec.get("container"):
        from weft.node.engine.container.entry import entry_of_run

        command, env = entry_of_run(folder, spec, command, terminal=os.isatty(0))
    try:
        program = find_program(command[0], env.get("PATH", DEFAULT_PATH))
        process = subprocess.Popen(command, executable=program, env=env, cwd=outer_directory(spec), umask=spec["umask"])
    except LaunchError as failure:
        render.print_message(failure.detail)
        return failure.code or NOT_EXECUTABLE
    except OSError as error:
        render.print_message(f"cannot execute {command[0]!r}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    return _wait(process, os.path.join(folder, run_files.EXIT), job)


def _environment(spec: dict[str, Any]) -> dict[str, str]:
    """Return the variables of the run, for the terminal of this process."""
    import os

    env: dict[str, str] = {**spec["env"]}
    return {**env, "TERM": os.environ["TERM"]} if "TERM" in os.environ else env


def _wait(process: subprocess.Popen[bytes], ended: str, job: str) -> int:
    """Wait for the command; end it if the run ends first. Ctrl-C reaches the command, not this process."""
    import os
    import signal
    import subprocess

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            try:
                code = process.wait(POLL_S)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                pass
            if os.path.exists(ended):
                process.terminate()
                try:
                    process.wait(GRACE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                render.print_message(f"the run of job {job} has ended, and with it the command")
                return 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)
        if process.poll() is None:
            process.terminate()
            process.wait()
