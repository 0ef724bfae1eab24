"""The lines that `weft server` prints once it listens: its address, files and next steps."""

from __future__ import annotations

from weft.access.endpoints.addresses import Address, is_loopback
from weft.access.server.plan import Plan, ServerStatus
from weft.access.server.settings import Settings
from weft.history.journal.postgres.session import public_url
from weft.text import plural


def lines_of(plan: Plan, opened: ServerStatus) -> list[tuple[str, str]]:
    if opened.leader:
        return [("standby", f"{Address(plan.host, opened.port)}; the leader is {opened.leader}"), _log_line(plan)]
    local = is_loopback(plan.host)
    name = "localhost" if local else "HOST"
    where = ",".join(map(str, plan.peers)) or f"{name}:{opened.port}"
    found = [
        ("listens", f"{Address(plan.host, opened.port)}, {'this machine only' if local else 'over TLS'}"),
        ("policy", _policy(plan.settings)),
        ("state", public_url(opened.journal_url)),
        _log_line(plan),
    ]
    if opened.nodes or opened.jobs:
        found.append(("found", f"{plural(opened.nodes, 'worker')}, {plural(opened.jobs, 'unfinished job')}"))
    if opened.metrics_port is not None:
        at = Address(plan.metrics_host, opened.metrics_port)
        found.append(("metrics", f"{'http' if is_loopback(at.host) else 'https'}://{at}/metrics"))
    if plan.page is not None and opened.page_port is not None:
        at = Address(plan.page.host, opened.page_port)
        found.append(("web", f"{'http' if is_loopback(at.host) else 'https'}://{at}, log in with a token"))
    if not local:
        found.append(("invite", f"weft auth token --role worker; then on the worker: weft auth join {where} TOKEN"))
    return [
        *found,
        ("workers", f"weft worker --scheduler {where}"),
        ("jobs", f"weft submit --scheduler {where} -- CMD"),
    ]


def _log_line(plan: Plan) -> tuple[str, str]:
    return ("log", str(plan.folder / "server.log"))


def _policy(settings: Settings) -> str:
    rounds = f", in rounds of {settings.interval_s:g} s" if settings.interval_s else ""
    return settings.policy + rounds
