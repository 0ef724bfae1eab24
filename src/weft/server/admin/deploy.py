"""Deploy, scale, roll back and undeploy services: requests of users become events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from weft.access.auth.identity import Caller
from weft.access.jobspec.fields import spec_of
from weft.access.jobspec.readers import Given
from weft.access.jobspec.workloads import SERVERS, command_for
from weft.access.services.description import KEYS, LIVE_KEYS, MAX_COUNT, MAX_REPLICAS, read_service
from weft.access.wire.messages import DeployRequest, ServiceChange, SubmitRequest
from weft.errors import InputError, NotPermitted, Refused, UnknownName
from weft.inputs.quantities import parse_share
from weft.inputs.yaml import YamlMapping, parse_yaml
from weft.model import Deployed, Event, Job, ScaleRule, Seconds, Service, Share, Undeployed
from weft.model.status import ENDED
from weft.scheduling.core.state.services import ServiceState
from weft.server.controller import Controller
from weft.server.process.slices import at_once
from weft.views.answers.services import DeployedView

MAX_DESCRIPTION_CHARS: Final = 16_384
"""To read four times as many brackets takes more than half a second."""
TRIAL_SUFFIX: Final = "-trial"
RESERVED_NAMES: Final = ("v1", "-")
"""Paths of the router itself."""


def deploy(
    controller: Controller, request: DeployRequest, now: Seconds, who: Caller
) -> tuple[Sequence[Event], DeployedView]:
    """Return the event that deploys a service or changes it; none if nothing changes."""
    described = _describe(controller, request, who)
    controller.services.check_router()
    known = controller.scheduler.state.services.by_name.get(described.name)
    if known is not None:
        _check_owner(who, known)
    elif clash := _group_of_jobs(controller, described.name):
        raise Refused(
            f"{described.name} is the name of a group of jobs, such as {clash}\n  give the service another name"
        )
    service, outcome = _next_version(known, described)
    _check_models(controller, service)
    start = request.start and not service.scale.min_replicas and not _was_ready(known, service)
    changes = not request.dry_run and (outcome != "unchanged" or start)
    events = [Deployed(now, service, who.user, start=start)] if changes else []
    return events, DeployedView(
        service=service.name, version=service.version, outcome=outcome, url=controller.services.url(service.name)
    )


def change(
    controller: Controller, request: ServiceChange, now: Seconds, who: Caller
) -> tuple[Sequence[Event], DeployedView]:
    """Return the event of `weft undeploy`, `weft scale` or `weft rollback`."""
    services = controller.scheduler.state.services.by_name
    known = services.get(request.service)
    if known is None or (known.undeployed and not request.now):
        raise UnknownName("service", request.service[:80], [name for name, s in services.items() if not s.undeployed])
    _check_owner(who, known)
    if request.verb not in (*_VERBS, "trial"):
        raise UnknownName("verb", request.verb[:80], (*_VERBS, "trial"))
    if request.verb == "trial":
        return _deploy_trial(controller, known, request, now)
    events = _VERBS[request.verb](known, request, now, who)
    service = next((event.service for event in events if isinstance(event, Deployed)), known.service)
    if request.verb == "rollback":
        _check_models(controller, service)
    outcome = {"undeploy": "undeployed", "scale": "scaled", "rollback": "rolled back"}[request.verb]
    return events, DeployedView(
        service=service.name, version=service.version, outcome=outcome, url=controller.services.url(service.name)
    )


def _undeploy(known: ServiceState, request: ServiceChange, now: Seconds, _who: Caller) -> list[Event]:
    gone = Undeployed(now, known.service.name)
    if not request.now:
        return [gone]
    hurried = replace(known.service, timeouts=replace(known.service.timeouts, drain_s=0.0))
    return [Deployed(now, hurried), gone]


def _scale(known: ServiceState, request: ServiceChange, now: Seconds, _who: Caller) -> list[Event]:
    least, most = request.min_replicas, request.max_replicas
    if least > most or most < 1:
        raise InputError(f"{least}..{most} replicas make no sense", hint="such as 2, or 0..8")
    if most > MAX_REPLICAS:
        raise InputError(f"{most:,} replicas are too many", hint=f"a service has at most {MAX_REPLICAS:,}")
    rule = replace(known.service.scale, min_replicas=least, max_replicas=most)
    return [Deployed(now, replace(known.service, scale=rule))]


def _rollback(known: ServiceState, request: ServiceChange, now: Seconds, who: Caller) -> list[Event]:
    name, present = known.service.name, known.service
    if request.version in (present.version, *known.rollout.versions):
        raise Refused(f"{name} runs as in version {request.version} already: there is nothing to change")
    earlier = {revision.service.version: revision for revision in known.revisions}
    good = earlier.get(request.version) if request.version else known.last_good()
    if good is None:
        lacks = (
            f"version {request.version}" if request.version else "earlier version that was ready and not rolled back"
        )
        raise Refused(f"{name} has no {lacks}\n  weft services {name} --history lists its versions; --to N selects one")
    return [Deployed(now, replace(good.service, version=present.version + 1), who.user, rollback=True)]


_VERBS: Final = {"undeploy": _undeploy, "scale": _scale, "rollback": _rollback}


def _was_ready(known: ServiceState | None, service: Service) -> bool:
    """Return whether a replica of this version was ready once."""
    return known is not None and known.service.version == service.version and known.rollout.ready_at is not None


def _deploy_trial(
    controller: Controller, known: ServiceState, request: ServiceChange, now: Seconds
) -> tuple[Sequence[Event], DeployedView]:
    """Return the event that deploys a copy of a service with one replica, for `weft profile service`."""
    share = Share(*parse_share(request.share))
    name = f"{known.service.name}{TRIAL_SUFFIX}"
    template = replace(known.service.template, id=name, share=share)
    update = replace(known.service.update, rollback=False)
    trial = replace(
        known.service, name=name, template=template, scale=ScaleRule("fixed", 1, 1), version=1, models=(),
        concurrency=min(max(request.concurrency, 1), MAX_COUNT), update=update,
    )  # fmt: skip
    service, outcome = _next_version(controller.scheduler.state.services.by_name.get(name), trial)
    events = [] if outcome == "unchanged" else [Deployed(now, service)]
    return events, DeployedView(
        service=name, version=service.version, outcome=outcome, url=controller.services.url(name)
    )


def _describe(controller: Controller, request: DeployRequest, who: Caller) -> Service:
    """Return the service of a description, with the job that its replicas are made from."""
    if len(request.description) > MAX_DESCRIPTION_CHARS:
        raise InputError(f"the description has more than {MAX_DESCRIPTION_CHARS:,} characters")
    file = request.file[:200] or "the description"
    entry = parse_yaml(request.description, file).mapping("a service", KEYS + LIVE_KEYS)
    service = read_service(entry, min_gpus=0)
    if service.name in RESERVED_NAMES:
        raise entry.require("service").error(f"{service.name} is a path of the router", "give it another name")
    _check_user(entry, who)
    with entry.value.locating():
        template = _template(controller, entry, service, request, who)
    return replace(service, template=template, models=_models(entry))


def _check_user(entry: YamlMapping, who: Caller) -> None:
    """Raise if replicas would run as another user, unless an admin wants that."""
    user = entry.get("user")
    if user is not None and not who.owns(user.text()):
        raise NotPermitted(
            f"{user.where}: replicas of user {user.text()[:80]!r}, and you are {who.user}\n"
            "  leave user out; only admins may deploy for others"
        )


def _models(entry: YamlMapping) -> tuple[str, ...]:
    """Return the names of models by which OpenAI requests select a service."""
    models, llm = entry.get("models"), entry.get("llm")
    names = [] if models is None else [each.text() for each in models.items("a list of models")]
    if llm is not None:
        names.append(llm.mapping("llm", ("model",)).require("model").text())
    return tuple(dict.fromkeys(names))


def _command(entry: YamlMapping) -> Given:
    """Return the command of the replicas: `run`, or that of the server which is registered for `model`."""
    model, params = entry.get("model"), entry.get("params")
    if model is None:
        if params is not None:
            raise params.error("params without a model", "add model: NAME, or pass them in run")
        run = entry.require("run")
        return [each.text() for each in run.items("a command")] if run.is_list else run.text()
    if (given := entry.get("run")) is not None:
        raise given.error("run and model", "give one of them")
    with model.locating():
        values = {} if params is None else {key: each.text() for key, each in params.mapping("params").entries.items()}
        return list(command_for({"model": model.text(), **values}, SERVERS).words)


def _template(controller: Controller, entry: YamlMapping, service: Service, request: DeployRequest, who: Caller) -> Job:
    """Return the job that replicas are made from, built and checked as jobs of users are."""
    given: dict[str, Given] = {"command": _command(entry), "name": service.name}
    for key in ("gpus", "memory", "share", "chdir", "cpus", "mem", "grace", "image", "runtime", "team"):
        if key == "share":
            share = service.template.share
            given |= {} if share.request >= 1 else {"share": f"{share.request:g}/{share.limit:g}"}
        elif (value := entry.get(key)) is not None:
            given[key] = value.text()
    if (build := entry.get("build")) is not None:
        if not request.image:
            raise build.error("no image was built", "deploy it with weft deploy, which builds it")
        given["image"] = request.image
    if (env := entry.get("env")) is not None:
        given["env"] = {name: value.text() for name, value in env.mapping("env").entries.items()}
    if (mounts := entry.get("mounts")) is not None:
        given["mount"] = [each.text() for each in mounts.items("mounts")] if mounts.is_list else mounts.text()
    submit = SubmitRequest(jobs=[spec_of(given)], chdir=request.chdir, env=request.env, dry_run=True)
    made = at_once(controller.commands.prepare(submit, who)).templates[0].job
    return replace(made, id=service.name, user=service.template.user or who.user)


def _next_version(known: ServiceState | None, service: Service) -> tuple[Service, str]:
    """Return the service with its version, and what becomes of it. New replicas need a new version."""
    if known is None:
        return service, "deployed"
    old = known.service
    same_replicas = old.runs_like(service)
    version = old.version if same_replicas else old.version + 1
    service = replace(service, version=version)
    if service == old and not known.undeployed:
        return service, "unchanged"
    return service, "changed" if same_replicas else "updated"


def _check_owner(who: Caller, known: ServiceState) -> None:
    owner = known.service.template.user
    if not who.owns(owner):
        raise NotPermitted(
            f"service {known.service.name} belongs to {owner}, and you are {who.user}\n"
            "  only its owner and admins may change it"
        )


def _check_models(controller: Controller, service: Service) -> None:
    """Raise if another service has a model of this one: OpenAI requests name the model alone."""
    for other in controller.scheduler.state.services.by_name.values():
        common = [model for model in service.models if model in other.service.models]
        if common and other.service.name != service.name and not other.undeployed:
            raise Refused(
                f"model {common[0]!r} belongs to service {other.service.name}\n"
                "  give one of them another name of the model, or undeploy the other"
            )


def _group_of_jobs(controller: Controller, name: str) -> str:
    """Return a job of the group with this name that is not ended and no replica; empty: there is none."""
    jobs = controller.scheduler.state.jobs.values()
    own = (job.id for job in jobs if job.job.group == name and job.job.replica is None and job.status not in ENDED)
    return next(own, "")
