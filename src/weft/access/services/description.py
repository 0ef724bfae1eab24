"""Reader of the YAML description of a service (docs/reference/services-file.md). Every error names its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weft.inputs.quantities import check_name, parse_duration, parse_megabytes, parse_share
from weft.inputs.yaml import YamlMapping, YamlValue
from weft.model import Health, Job, PerRank, RoutingRule, ScaleRule, Service, Share, Task, Timeouts, UpdateRule
from weft.scheduling.plugins import registry

KEYS: Final = (
    "service", "gpus", "share", "memory", "replicas", "scale", "slo", "concurrency", "health", "timeouts", "update",
    "retry", "max_queue", "balance", "user", "team",
)  # fmt: skip
LIVE_KEYS: Final = (
    "run", "model", "params", "env", "chdir", "cpus", "mem", "grace", "models", "llm", "image", "build",
    "mounts", "runtime",
)  # fmt: skip
"""Keys that only a deployment uses: how its replicas run, and models of OpenAI requests. A simulation ignores
them, so that one file serves for both."""
RETRY_RULES: Final = ("never", "connect", "safe", "unanswered")
BALANCE_RULES: Final = ("p2c", "round_robin")
MAX_REPLICAS: Final = 10_000
MAX_COUNT: Final = 100_000
"""The most GPUs of a replica, and the most requests at one or in a queue."""


def read_service(entry: YamlMapping, *, min_gpus: int = 1) -> Service:
    """Return the service that a mapping describes. Live replicas may do without GPUs, simulated ones may not."""
    name = entry.require("service")
    with name.locating():
        check_name(name.text())
    memory, slo = entry.get("memory"), entry.get("slo")
    template = Job(
        name.text(), entry.whole("gpus", 1, low=min_gpus, high=MAX_COUNT), user=entry.text("user", ""),
        share=_share(entry.get("share")), memory_mb=PerRank(0 if memory is None else _megabytes(memory)),
        task=Task(team=team) if (team := entry.text("team", "")) else None,
    )  # fmt: skip
    usual = RoutingRule()
    return Service(
        name.text(), template, _scale(entry.get("replicas"), entry.get("scale")), _health(entry.get("health")),
        _timeouts(entry.get("timeouts")), concurrency=entry.whole("concurrency", 8, low=1, high=MAX_COUNT),
        slo_s=None if slo is None else parse_seconds(slo), update=_update(entry.get("update")),
        routing=RoutingRule(
            _one_of(entry.get("retry"), RETRY_RULES, usual.retry),
            entry.whole("max_queue", usual.max_queue, low=1, high=MAX_COUNT),
            _one_of(entry.get("balance"), BALANCE_RULES, usual.balance),
        ),
    )  # fmt: skip


def parse_seconds(value: YamlValue) -> float:
    """Parse a time with its unit, such as 250ms, 30s or 10m. A bare number is refused: its unit would be a guess."""
    text = value.text().strip()
    if text.endswith("ms") and text[:-2].replace(".", "", 1).isdigit() and float(text[:-2]) > 0:
        return float(text[:-2]) / 1000
    if not text[-1:].isalpha():
        raise value.error(f"bad {value.key}: {text[:40]}", "expected a time with its unit, such as 250ms, 30s or 10m")
    with value.locating():
        return parse_duration(text)


def parse_above_zero(value: YamlValue) -> float:
    """Parse a number above 0."""
    try:
        number = float(value.text())
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise value.expected("a number above 0")
    return number


def seconds(entry: YamlMapping, key: str, default: float) -> float:
    value = entry.get(key)
    return default if value is None else parse_seconds(value)


def _megabytes(value: YamlValue) -> int:
    with value.locating():
        return parse_megabytes(value.text())


def _share(value: YamlValue | None) -> Share:
    if value is None:
        return Share()
    if value.is_mapping:
        parts = value.mapping("a share", ("request", "limit"))
        text = f"{parts.require('request').text()}/{parts.require('limit').text()}"
    else:
        text = value.text()
    with value.locating():
        return Share(*parse_share(text))


def _scale(replicas: YamlValue | None, scale: YamlValue | None) -> ScaleRule:
    least, most, delay_s = 1, 1, ScaleRule().to_zero_after_s
    if replicas is not None:
        bounds = replicas.mapping("replicas", ("min", "max", "to_zero_after"))
        least = bounds.whole("min", 1, high=MAX_REPLICAS)
        most = bounds.whole("max", max(least, 1), low=1, high=MAX_REPLICAS)
        delay_s = seconds(bounds, "to_zero_after", delay_s)
        if least > most:
            raise replicas.error(f"min {least} is over max {most}", "give a min up to max")
    if scale is None:
        return ScaleRule(min_replicas=least, max_replicas=most, to_zero_after_s=delay_s)
    rule = scale.mapping("scale")
    throughput = rule.get("throughput")
    options = [f"{key}={value.text()}" for key, value in rule.entries.items() if key not in ("by", "throughput")]
    scaler = ":".join([rule.text("by", "deficit"), *options])
    with scale.locating():
        registry.load_scaler(scaler)
    declared = None if throughput is None else parse_above_zero(throughput)
    return ScaleRule(scaler, least, most, delay_s, throughput=declared)


def _health(value: YamlValue | None) -> Health:
    if value is None:
        return Health()
    given, usual = value.mapping("health", ("path", "start_within", "every", "fails", "warm_up")), Health()
    path, warmup = given.get("path"), given.get("warm_up")
    found = Health(
        usual.path if path is None else _path(path), seconds(given, "start_within", usual.start_within_s),
        seconds(given, "every", usual.every_s), given.whole("fails", usual.fails, low=1, high=1000),
    )  # fmt: skip
    if warmup is None:
        return found
    how = warmup.mapping("warm_up", ("path", "body", "requests"))
    requests = how.whole("requests", 1, low=1, high=1000)
    return replace(
        found, warmup_path=_path(how.require("path")), warmup_body=how.text("body", ""), warmup_requests=requests
    )


def _path(value: YamlValue) -> str:
    """Return a path of HTTP requests."""
    text = value.text()
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
        raise value.error(f"bad {value.key}: {text[:40]}", "expected a path, such as /health")
    return text


def _one_of(value: YamlValue | None, choices: Sequence[str], default: str) -> str:
    if value is None:
        return default
    if value.text() not in choices:
        raise value.expected(f"one of {', '.join(choices)}")
    return value.text()


def _update(value: YamlValue | None) -> UpdateRule:
    if value is None:
        return UpdateRule()
    given, usual = value.mapping("update", ("surge", "tries", "rollback", "error_gate")), UpdateRule()
    surge, rollback, gate = given.get("surge"), given.get("rollback"), given.get("error_gate")
    part = usual.surge if surge is None else parse_above_zero(surge)
    if surge is not None and part > 10:
        raise surge.expected("a number above 0, such as 0.25")
    return UpdateRule(part, given.whole("tries", usual.tries, low=1, high=1000), _is_on(rollback), _is_on(gate))


def _is_on(value: YamlValue | None) -> bool:
    """Return what a switch that is usually on says."""
    return _one_of(value, ("true", "false"), "true") == "true"


def _timeouts(value: YamlValue | None) -> Timeouts:
    if value is None:
        return Timeouts()
    given, usual = value.mapping("timeouts", ("queue", "answer", "idle", "drain")), Timeouts()
    return Timeouts(
        seconds(given, "queue", usual.queue_s), seconds(given, "answer", usual.answer_s),
        seconds(given, "idle", usual.idle_s), seconds(given, "drain", usual.drain_s),
    )  # fmt: skip
