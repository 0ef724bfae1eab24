"""Send requests to a service at a given rate, and measure how long the answers take.

The loop is open: requests go out when they are due, whether or not answers come, and their times count from then."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from weft.cli import flags, render, tables
from weft.cli.request_flags import parse_headers, read_body
from weft.cli.tables import Cell
from weft.cli.workload_units import latency, positive
from weft.errors import InputError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from weft.access.endpoints.credentials import Credentials
    from weft.lab.load.figures import LoadFigures, Sent
    from weft.lab.load.sender import LoadPlan

DEFAULT_ROUTER: Final = "127.0.0.1:8080"
DEFAULT_DURATION_S: Final = 30.0
MAX_DURATION_S: Final = 86_400
MAX_BODY_BYTES: Final = 64 << 20
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")
EXAMPLE: Final = """examples:
  weft load chat --rps 40 --duration 1m
  weft load http://127.0.0.1:8080/v1/completions --rps 20 --gamma 4 -d '{"model": "tiny", "prompt": "hi"}' --slo 250ms
  weft load chat --rps rps.txt --times 10 --out chat-load
  weft load --rps bursty:50 --duration 5m --print-rps > rps.txt"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="URL|SVC", nargs="?", help="an http or https address, or a service of the router")
    add(
        "--rps",
        metavar="N|FILE|SHAPE:N",
        required=True,
        help="requests per second; a file with one rate per line and second; or constant, ramp, periodic, bursty or "
        "sporadic with its peak",
    )
    add("--times", metavar="X", type=positive, default=1.0, help="multiply the rates (1)")
    add("--gamma", metavar="CV", type=_variation, default=1.0, help="variation of the gaps: 0 regular, 1 Poisson (1)")
    add("--duration", metavar="T", type=latency, help="how long (30s; of a file, all of it)")
    add("--seed", metavar="N", type=flags.whole_number(), default=1, help="seed of the arrivals (1)")
    add("--path", metavar="PATH", default="/", help="path below the service (/)")
    add("-X", "--method", metavar="M", choices=METHODS, help="method (GET; with a body POST)")
    add("-d", "--data", metavar="TEXT|@FILE", help="body of each request; @FILE reads it from a file")
    add("-H", "--header", metavar="H", action="append", default=[], help="another header, such as 'X-Team: a'")
    add("--connections", metavar="N", type=flags.whole_number(1, 20_000), default=256, help="most connections (256)")
    add("--timeout", metavar="T", type=latency, default=60.0, help="give up on an answer after this time (60s)")
    add("--slo", metavar="T", type=latency, help="count slower answers as late")
    add("--router", metavar="ADDR", help=f"the router of SVC (WEFT_ROUTER, that of the scheduler, or {DEFAULT_ROUTER})")
    add("--ca", metavar="FILE", help="certificate authority of an https address")
    add("--out", metavar="DIR", help="write a picture (PNG, SVG), load.csv and summary.json to DIR")
    add("--force", action="store_true", help="replace DIR, whatever it contains")
    add("--print-rps", action="store_true", help="print the rates, one per second, and send nothing")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.cli.study_output import check_out

    rates = _rates(args)
    if args.print_rps:
        print("\n".join(f"{rate:.6g}" for rate in rates))
        return 0
    if args.target is None:
        raise InputError("an address or a service is needed", hint="such as weft load chat --rps 10")
    check_out(args)
    plan = _plan(args, rates)
    if not plan.times_s:
        raise InputError("no request falls into this time", hint="raise --rps or --duration")
    from weft.lab.load.figures import summarise
    from weft.lab.load.sender import send_all

    with render.ProgressMeter(args.target[:40], len(plan.times_s), "requests") as progress:
        sent = send_all(plan, progress.draw if progress.on else lambda _done: None)
    figures = summarise(sent, args.slo)
    summary = _summary(args, plan, figures)
    if args.out is not None:
        _write(args, sent, summary)
    if args.json:
        render.print_json(summary)
    else:
        tables.print_pairs(_pairs(args, figures), args.color)
    return 0 if figures.ok else 1


def _variation(text: str) -> float:
    return 0.0 if text in ("0", "0.0") else positive(text)


def _rates(args: argparse.Namespace) -> list[float]:
    from weft.lab.load.shapes import SHAPES, make_shape
    from weft.sim.serving.arrivals import read_rps

    duration_s = args.duration if args.duration is not None else DEFAULT_DURATION_S
    if duration_s > MAX_DURATION_S:
        raise InputError(f"--duration: {duration_s:g} s", hint="at most a day")
    shape, colon, peak = args.rps.partition(":")
    if colon and shape in SHAPES:
        rates = make_shape(shape, _number(peak), max(1, round(duration_s)), args.seed)
    elif _is_number(args.rps):
        whole, rest = divmod(duration_s, 1.0)
        rate = _number(args.rps)
        rates = [rate] * int(whole) + ([rate * rest] if rest else [])
    else:
        rates = read_rps(args.rps)
        if args.duration is not None:
            rates = rates[: max(1, round(duration_s))]
    return [rate * args.times for rate in rates[:MAX_DURATION_S]]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float:
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"--rps: {error}", hint="such as 40, rps.txt or bursty:50") from None


def _plan(args: argparse.Namespace, rates: list[float]) -> LoadPlan:
    from weft.lab.load.arrivals import draw_arrivals
    from weft.lab.load.sender import LoadPlan

    where = _split(args)
    tls, access = None, _access(args, where)
    if where.scheme == "https":
        import ssl

        authority = access.ca.decode() if access is not None and access.ca is not None and args.ca is None else None
        tls = ssl.create_default_context(cafile=args.ca, cadata=authority)
    method = args.method or ("POST" if args.data is not None else "GET")
    host, port = str(where.hostname), where.port or (443 if tls else 80)
    times_s = draw_arrivals(rates, args.gamma, args.seed)
    request = _request(args, where, method, access.token if access is not None else "")
    return LoadPlan(host, port, request, times_s, args.connections, args.timeout, tls, method == "HEAD")


def _split(args: argparse.Namespace) -> SplitResult:
    from urllib.parse import urlsplit

    target = args.target
    if "://" not in target:
        router = args.router or os.environ.get("WEFT_ROUTER") or ""
        target = (("" if router else _url_of(target)) or _url_at(router, target)) + f"/{args.path.lstrip('/')}"
    where: SplitResult = urlsplit("")
    try:
        where = urlsplit(target)
        fits = where.scheme in ("http", "https") and where.hostname and (where.port is None or where.port > 0)
    except ValueError:
        fits = False
    if not fits or not target.isascii() or any(letter.isspace() for letter in target):
        raise InputError(f"{target[:80]!r} is not an address", hint="such as http://127.0.0.1:8080/chat/")
    return where


def _access(args: argparse.Namespace, where: SplitResult) -> Credentials | None:
    """Return what the router of a cluster asks for, if SVC is one of its services."""
    if "://" in args.target or where.scheme != "https":
        return None
    from weft.access.endpoints.config import scheduler_address
    from weft.access.endpoints.credentials import find_credentials

    scheduler = scheduler_address(None)
    return find_credentials(scheduler) if scheduler is not None else None


def _url_of(service: str) -> str:
    """Return the URL of a deployed service; empty: no scheduler runs, or it has no such service."""
    from weft.cli import connection
    from weft.errors import WeftError

    try:
        client = connection.connect_if_running(None)
        if client is None:
            return ""
        with client:
            return next((each.url for each in client.services().services if each.name == service), "")
    except WeftError:
        return ""


def _url_at(router: str, service: str) -> str:
    router = router or DEFAULT_ROUTER
    base = router if "://" in router else f"http://{router}"
    return f"{base.rstrip('/')}/{service.strip('/')}"


def _request(args: argparse.Namespace, where: SplitResult, method: str, token: str = "") -> bytes:
    body = read_body(args.data, MAX_BODY_BYTES)
    target = (where.path or "/") + (f"?{where.query}" if where.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {where.netloc.rpartition('@')[2]}"]
    headers = parse_headers(args.header)
    names = {name.lower() for name, _ in headers}
    lines += [f"{name}: {value}" for name, value in headers]
    if token and "authorization" not in names:
        lines.append(f"Authorization: Bearer {token}")
    if "user-agent" not in names:
        lines.append("User-Agent: weft-load")
    if body or method in ("POST", "PUT", "PATCH"):
        if "content-type" not in names:
            lines.append("Content-Type: application/json")
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _summary(args: argparse.Namespace, plan: LoadPlan, figures: LoadFigures) -> dict[str, Any]:
    found: dict[str, Any] = {
        "target": args.target, "requests": figures.requests, "ok": figures.ok, "seconds": round(figures.seconds, 3),
        "rps": round(figures.requests / max(figures.seconds, 1e-9), 3), "codes": figures.codes,
        "latency_s": {key: round(value, 6) for key, value in figures.latency_s.items()},
        "first_byte_s": {key: round(value, 6) for key, value in figures.first_s.items()},
        "connections": plan.connections, "gamma": args.gamma, "seed": args.seed, "slo_s": args.slo,
        "late": figures.late,
    }  # fmt: skip
    return found


def _pairs(args: argparse.Namespace, figures: LoadFigures) -> list[tuple[str, Cell]]:
    def times(values: dict[str, float]) -> str:
        return ", ".join(f"{key} {_milliseconds(value)}" for key, value in values.items()) or "-"

    codes = ", ".join(f"{count:,} x {code}" for code, count in figures.codes.items())
    found: list[tuple[str, Cell]] = [
        ("requests", Cell(f"{figures.requests:,} in {figures.seconds:.1f} s")),
        ("ok", Cell(f"{figures.ok:,} ({100 * figures.ok / max(figures.requests, 1):.2f} %): {codes}")),
        ("latency", Cell(times(figures.latency_s))),
        ("first byte", Cell(times(figures.first_s))),
    ]
    if figures.late is not None:
        share = 100 * figures.late / max(figures.requests, 1)
        found.append(("late", Cell(f"{figures.late:,} ({share:.2f} %) above {_milliseconds(args.slo)}")))
    return found


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _write(args: argparse.Namespace, sent: list[Sent], summary: dict[str, Any]) -> None:
    from weft.lab.load.figures import by_second
    from weft.lab.report.folder import write_csv, write_pictures, write_summary
    from weft.lab.report.load_picture import LoadSeries, draw_load
    from weft.sim.folder import atomic_folder

    rows = by_second(sent)
    requests, failed, p50_s, p99_s = zip(*rows, strict=True) if rows else ((), (), (), ())
    good = sorted(each.seconds for each in sent if 0 < each.status < 400)
    series = LoadSeries(requests, failed, p50_s, p99_s, good, args.slo)
    with atomic_folder(args.out, force=args.force) as folder:
        write_pictures(folder, draw_load(series))
        columns = ("due_s", "first_byte_s", "latency_s", "status")
        ordered = sorted(sent)
        write_csv(
            folder / "load.csv",
            columns,
            ((f"{each.due_s:.6f}", f"{each.first_s:.6f}", f"{each.seconds:.6f}", each.status) for each in ordered),
        )
        write_summary(folder, summary)
