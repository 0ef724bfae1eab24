"""The table of services and replicas that a router serves, and its form as a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from weft.access.endpoints.addresses import Address, parse_address
from weft.errors import InputError, UnknownName
from weft.model.service import DEFAULT_TIMEOUTS, Timeouts
from weft.router.rules.picking import BALANCE_RULES, BalanceRule
from weft.router.rules.retry import RETRY_RULES, RetryRule

if TYPE_CHECKING:
    from weft.inputs.yaml import YamlMapping, YamlValue

Rule = TypeVar("Rule", bound=str)
MAX_QUEUE: Final = 1000
MAX_CONCURRENCY: Final = 1_000_000
MAX_WEIGHT: Final = 1000.0
MAX_TIMEOUT_S: Final = 86400.0
RESERVED: Final = frozenset(("v1", "-"))
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
SERVICE_KEYS: Final = (
    "replicas",
    "concurrency",
    "models",
    "hosts",
    "timeouts",
    "retry",
    "max_queue",
    "balance",
    "health",
)
REPLICA_KEYS: Final = ("name", "address", "concurrency", "weight", "draining", "version")


@dataclass(frozen=True, slots=True)
class ReplicaRoute:
    """A replica that answers requests, or drains."""

    name: str
    """Distinct within its service, and not used again by another replica."""
    address: Address
    concurrency: int = 1
    weight: float = 1.0
    draining: bool = False
    version: int = 1
    silent: bool = False
    """True while the agent of its node is silent."""


@dataclass(frozen=True, slots=True)
class ServiceRoute:
    """A service and its replicas; without replicas its requests wait."""

    name: str
    replicas: tuple[ReplicaRoute, ...] = ()
    models: tuple[str, ...] = ()
    """Names by which OpenAI requests select the service."""
    hosts: tuple[str, ...] = ()
    """Host names that belong to the service, with all paths."""
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    retry: RetryRule = "safe"
    max_queue: int = MAX_QUEUE
    balance: BalanceRule = "p2c"
    health: str = "/"
    """The path of the probe for replicas that failed."""
    failed: str = ""
    """Why no replica starts; not empty: requests get 503 at once."""


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All services at one time."""

    services: tuple[ServiceRoute, ...] = ()
    number: int = 0


def read_table(path: str) -> RouteTable:
    """Read a table from a YAML or JSON file."""
    from weft.inputs.files import read_text

    return parse_table(read_text(path), path)


def parse_table(text: str, file: str) -> RouteTable:
    """Parse a table; raise InputError with the line at fault."""
    from weft.inputs.yaml import parse_yaml

    root = parse_yaml(text, file).mapping("a table", ("services",))
    services = root.require("services").mapping("services").entries
    found = tuple(_parse_service(name, value) for name, value in services.items())
    _check_names(found, file)
    return RouteTable(found)


def _parse_service(name: str, value: YamlValue) -> ServiceRoute:
    if name in RESERVED or not _NAME.fullmatch(name):
        hint = f"letters, digits, dots and dashes, at most 100; not {' or '.join(sorted(RESERVED))}"
        raise value.error(f"{name[:80]!r} cannot be the name of a service", hint)
    keys = value.mapping("a service", SERVICE_KEYS)
    concurrency = keys.whole("concurrency", 1, low=1, high=MAX_CONCURRENCY)
    listed = keys.get("replicas")
    items = listed.items("a list of replicas") if listed is not None else ()
    replicas = tuple(_parse_replica(each, concurrency) for each in items)
    if twice := _first_twice(replica.name for replica in replicas):
        raise value.error(f"two replicas of {name} are named {twice}", "give each replica another name")
    retry, balance = keys.get("retry"), keys.get("balance")
    return ServiceRoute(
        name,
        replicas,
        _texts(keys, "models"),
        tuple(host.lower() for host in _texts(keys, "hosts")),
        _parse_timeouts(keys.get("timeouts")),
        "safe" if retry is None else _parse_rule(retry, "retry rule", RETRY_RULES),
        keys.whole("max_queue", MAX_QUEUE, high=MAX_CONCURRENCY),
        "p2c" if balance is None else _parse_rule(balance, "balance rule", BALANCE_RULES),
        _parse_path(keys.get("health")),
    )


def _parse_replica(value: YamlValue, concurrency: int) -> ReplicaRoute:
    from yaml import ScalarNode

    if isinstance(value.node, ScalarNode):
        return ReplicaRoute(value.text(), _parse_address(value), concurrency)
    keys = value.mapping("a replica", REPLICA_KEYS)
    address = keys.require("address")
    draining = keys.text("draining", "false")
    if draining not in ("true", "false"):
        raise value.error(f"draining: {draining[:80]!r} is neither true nor false", "true: no new requests")
    return ReplicaRoute(
        keys.text("name", address.text()),
        _parse_address(address),
        keys.whole("concurrency", concurrency, low=1, high=MAX_CONCURRENCY),
        _parse_number(keys.get("weight"), 1.0, MAX_WEIGHT),
        draining == "true",
        keys.whole("version", 1),
    )


def _parse_address(value: YamlValue) -> Address:
    text = value.text()
    if not re.search(r":[0-9]+$", text):
        raise value.error(f"{text[:80]!r} has no port", "such as 127.0.0.1:9000 or [::1]:9000")
    return parse_address(text, value.where)


def _parse_path(value: YamlValue | None) -> str:
    path = "/" if value is None else value.text()
    if value is not None and not re.fullmatch(r"/[!-~]*", path):
        raise value.expected("a path such as /health")
    return path


def _parse_timeouts(value: YamlValue | None) -> Timeouts:
    if value is None:
        return DEFAULT_TIMEOUTS
    keys = value.mapping("timeouts", ("queue", "answer", "idle", "drain"))
    usual = DEFAULT_TIMEOUTS
    return Timeouts(
        _parse_seconds(keys.get("queue"), usual.queue_s),
        _parse_seconds(keys.get("answer"), usual.answer_s),
        _parse_seconds(keys.get("idle"), usual.idle_s),
        _parse_seconds(keys.get("drain"), usual.drain_s),
    )


def _parse_seconds(value: YamlValue | None, default: float) -> float:
    """Parse seconds, or a duration with its unit such as 250ms or 2m."""
    if value is None:
        return default
    text = value.text().strip()
    unit_s = next(
        (s for unit, s in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)) if text.endswith(unit)), 1.0
    )
    return unit_s * _parse_float(value, text.rstrip("msh"), MAX_TIMEOUT_S / unit_s, "a duration such as 60s or 250ms")


def _parse_number(value: YamlValue | None, default: float, high: float) -> float:
    return default if value is None else _parse_float(value, value.text(), high, f"a number above 0, up to {high:g}")


def _parse_float(value: YamlValue, text: str, high: float, what: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= high:
        raise value.expected(what)
    return found


def _parse_rule(value: YamlValue, what: str, rules: Sequence[Rule]) -> Rule:
    text = value.text()
    found = next((rule for rule in rules if rule == text), None)
    if found is None:
        raise UnknownName(what, text[:80], rules, where=value.where)
    return found


def _texts(keys: YamlMapping, key: str) -> tuple[str, ...]:
    value = keys.get(key)
    return () if value is None else tuple(each.text() for each in value.items("a list of names"))


def _check_names(services: tuple[ServiceRoute, ...], file: str) -> None:
    for what, names in (
        ("model", (model for service in services for model in service.models)),
        ("host", (host for service in services for host in service.hosts)),
    ):
        if twice := _first_twice(names):
            hint = f"each {what} selects one service"
            raise InputError(f"two services have the {what} {twice[:80]!r}", where=file, hint=hint)


def _first_twice(names: Iterator[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
