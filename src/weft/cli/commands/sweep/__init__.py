"""Submit one job for each combination of parameters, and compare their metrics.

Each trial is a job: {NAME} in the command becomes its value of the parameter. All flags of weft submit apply to each
of them; --group names the sweep, and --name is a template with {NAME}, {index} and {sweep}."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.cli.actions import add_action
from weft.cli.submit import sweep_flags, task_flags
from weft.errors import InputError
from weft.text import escape_controls, plural

if TYPE_CHECKING:
    from weft.access.jobspec.trials import SweepPlan

EXAMPLE: Final = """examples:
  weft sweep --grid lr=0.1,0.01 --grid seed=1..5 -- python train.py --lr {lr} --seed {seed}
  weft sweep --random lr=log:1e-5..1e-1 --trials 20 --max-parallel 4 -- python train.py --lr {lr}
  weft sweep --from trials.csv --name 'lr{lr}' --gpus 2 -- python train.py --lr {lr}
  weft sweep --grid lr=0.1,0.01,0.001 --stop asha --stop-by loss -- python train.py --lr {lr}
  weft sweep status
  weft sweep results train-1 --sort loss
  weft sweep stop train-1"""

ACTIONS: Final = {
    "status": "list sweeps, or count the trials of one",
    "results": "list trials with their parameters and last metrics",
    "stop": "cancel the unfinished trials of a sweep",
}
PASSES_ON: Final = True
UNNAMED: Final = "sweep"
"""The name with which a command is checked before the scheduler is asked which sweeps there are."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft sweep [flags] -- CMD ARGS...\n       weft sweep status|results|stop [SWEEP]"
    parser.set_defaults(act=submit)
    sweep_flags.add_parameters(parser)
    sweep_flags.add_early_stopping(parser)
    task_flags.add_arguments(parser, hidden=("array",))
    parser.add_argument("--dry-run", action="store_true", help="check everything, print the trials, submit nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the name of the sweep")
    flags.add_common(parser)
    below = parser.add_subparsers(metavar="COMMAND", dest="action", prog="weft sweep")
    for name, summary in ACTIONS.items():
        add_action(below, "sweep", name, summary)
        for flag in below.choices[name]._actions:
            if any(flag.dest == other.dest for other in parser._actions) and flag.dest != "help":
                flag.default = argparse.SUPPRESS  # a flag before the action counts, too


def run(args: argparse.Namespace) -> int:
    if args.passed_on and args.action:
        raise InputError(f"weft sweep {args.action} takes no command", hint=f"see weft sweep {args.action} --help")
    return int(args.act(args))


def submit(args: argparse.Namespace) -> int:
    """Submit the trials and report their ids."""
    from weft.access.jobspec.trials import new_sweep_name, trial_specs
    from weft.cli.submit import submission

    plan = _plan(args)
    trial_specs(plan)  # before a scheduler is started
    with connection.connect_or_start(args.scheduler) as client:
        if not args.group and not args.key:
            known = [sweep.sweep for sweep in client.sweeps().sweeps]
            plan = plan._replace(sweep=new_sweep_name(plan.command, known))
        elif not args.key and any(sweep.sweep == plan.sweep for sweep in client.sweeps().sweeps):
            hint = f"choose another --group; weft sweep results {plan.sweep} shows the trials"
            raise InputError(f"there is a sweep {plan.sweep!r} already", hint=hint)
        prepared = submission.prepare_specs(args, trial_specs(plan))
        prepared.request.group_jobs = args.max_parallel or 0
        ids = prepared.send(client)
        specs = prepared.request.jobs
        advice = [] if args.quiet else submission.advise(client, specs[-1:], ids[-1:])
        notes = [*client.submit_notes, *advice]
    for note in notes if not args.quiet and not args.json else ():
        render.print_message(note)
    if args.json:
        jobs = submission.submitted_views(specs, ids)
        answer = {"sweep": plan.sweep, "ids": ids, "jobs": jobs, "dry_run": args.dry_run, "notes": notes}
        render.print_json({"schema": 1, **answer})
    elif args.dry_run:
        for spec in specs:
            print(escape_controls(submission.describe(spec)))
    elif args.quiet:
        print(plan.sweep)
    else:
        print(f"submitted {plural(len(ids), 'trial')} as sweep {plan.sweep}: {_range(ids)}")
        render.print_message(f"weft sweep results {plan.sweep} shows their metrics")
    return 0


def _plan(args: argparse.Namespace) -> SweepPlan:
    """Return the sweep that the flags describe. Contact no scheduler."""
    from weft.access.jobspec.trials import DEFAULT_NAME, SweepPlan, check_sweep_name
    from weft.cli.submit.submission import wrap

    args.command = args.passed_on
    given = task_flags.given_flags(args)
    if args.wrap is not None:
        wrap(args, given)
    if not args.command:
        raise InputError("no command to run", hint="give it last: weft sweep [flags] -- CMD ARGS...")
    if args.array:
        raise InputError("--array: each trial is one job", hint="sweep over the indices: --grid index_=0..9")
    try:
        sweep = check_sweep_name(args.group or args.key or UNNAMED)
    except InputError as error:
        raise InputError(f"{'--group' if args.group else '--key'}: {error.what}", hint=error.hint) from None
    return SweepPlan(
        sweep, args.command, sweep_flags.rows_of(args), given, args.name or DEFAULT_NAME, sweep_flags.rule_of(args),
        args.allow_unused,
    )  # fmt: skip


def _range(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"job {ids[0]}"
    consecutive = all(each.isdecimal() for each in ids) and int(ids[-1]) - int(ids[0]) == len(ids) - 1
    return f"jobs {ids[0]}-{ids[-1]}" if consecutive else f"jobs {ids[0]} to {ids[-1]}"
