"""The kinds of files that people write for Weft: how to recognise each, and how to check it.

A kind is recognised by its keys or columns; the file is then read by the code that the commands use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.errors import InputError

if TYPE_CHECKING:
    from weft.inputs.yaml import YamlValue

Check = Callable[[str, str], str]
"""Takes the path and the text of a file, raises if it is wrong, and returns what it holds."""
HINT: Final = (
    "Weft reads task files, batch scripts, sweeps, services, clusters, teams, traces, journals, the targets of "
    "messages, configs; --kind says which this is"
)


class Kind(NamedTuple):
    name: str
    check: Check
    keys: frozenset[str] = frozenset()
    """Keys at the top of a YAML or JSON file, of which one is enough to recognise the kind."""


def _tasks(path: str, _text: str) -> str:
    from weft.access.jobspec.taskfile import link_dependencies, read_tasks
    from weft.access.jobspec.workloads import add_command

    tasks = read_tasks(path)
    link_dependencies(tasks)
    for task in tasks:
        spec = task.spec()
        try:
            add_command(spec)
        except InputError as error:
            raise task.located(error) from None
        if not spec.command:
            raise InputError("no command", where=task.where(), hint="add command: to the task")
    return _count(len(tasks), "task")


def _sweep(path: str, _text: str) -> str:
    from weft.access.sweeps.parameter_files import read_parameters

    rows = read_parameters(path)
    return f"{_count(len(rows), 'trial')} of {', '.join(rows[0])}"


def _teams(path: str, _text: str) -> str:
    from weft.access.teams.file import read_teams

    return _count(len(read_teams(path)), "team")


def _script(path: str, _text: str) -> str:
    from weft.access.jobspec.fields import spec_of
    from weft.access.jobspec.sbatch import read_script

    script = read_script([path])
    if script is None:
        raise InputError("no batch script", where=path, hint="it begins with #! and has lines with #SBATCH")
    try:
        spec_of({**script.given, "command": script.command})
    except InputError as error:
        raise error.at(where=script.where.get(error.key, path)) from None
    return _count(len(script.given), "option")


def _service(path: str, text: str) -> str:
    from weft.access.services.description import KEYS, LIVE_KEYS, read_service
    from weft.inputs.yaml import parse_yaml
    from weft.lab.compare.services_file import SIMULATED_KEYS

    entry = parse_yaml(text, path).mapping("a service", tuple(dict.fromkeys(KEYS + LIVE_KEYS + SIMULATED_KEYS)))
    found = read_service(entry, min_gpus=0)
    if entry.get("model") is None and entry.get("llm") is None:
        entry.require("run")
    return found.name


def _services(path: str, _text: str) -> str:
    from weft.lab.compare.services_file import read_services

    return _count(len(read_services(path, seed=0)), "service")


def _cluster(path: str, _text: str) -> str:
    from weft.sim.clusters.reader import read_cluster

    nodes = read_cluster(path)
    return f"{_count(len(nodes), 'node')}, {_count(sum(len(node.gpus) for node in nodes), 'GPU')}"


def _trace(path: str, _text: str) -> str:
    from weft.sim.traces.trace import read_trace

    trace = read_trace(path)
    return f"{_count(len(trace.jobs), 'job')}, format {trace.format}"


def _journal(path: str, _text: str) -> str:
    from weft.history.journal import open_journal

    with open_journal(path, readonly=True) as journal:
        return _count(sum(1 for _ in journal.read()), "fact")


def _targets(path: str, text: str) -> str:
    from weft.access.notify.targets import parse_targets

    return _count(len(parse_targets(text, path).by_name), "target")


def _project(path: str, _text: str) -> str:
    from weft.access.endpoints.config import PROJECT_KEYS

    return _settings(path, PROJECT_KEYS)


def _config(path: str, _text: str) -> str:
    from weft.access.endpoints.config import KEYS

    return _settings(path, tuple(KEYS))


def _settings(path: str, known: tuple[str, ...]) -> str:
    from weft.access.endpoints.config import JOB_KEYS, read_settings
    from weft.access.jobspec.fields import spec_of

    found = read_settings(path, known)
    for key in (key for key in JOB_KEYS if key in found):
        try:
            spec_of({key: found[key].value})
        except InputError as error:
            raise error.at(where=found[key].origin) from None
    return _count(len(found), "setting")


KINDS: Final = (
    Kind("cluster", _cluster, frozenset({"nodes"})),
    Kind("services", _services, frozenset({"services"})),
    Kind("service", _service, frozenset({"service", "run", "llm"})),
    Kind("targets", _targets, frozenset({"targets"})),
    Kind("teams", _teams, frozenset({"teams"})),
    Kind("tasks", _tasks, frozenset({"tasks", "command", "params"})),
    Kind("project", _project),
    Kind("config", _config, frozenset({"scheduler", "shared", "sharing"})),
    Kind("script", _script),
    Kind("sweep", _sweep),
    Kind("trace", _trace),
    Kind("journal", _journal),
)
BY_NAME: Final = {kind.name: kind for kind in KINDS}
CLUSTER_COLUMNS: Final = "num_switch"
"""The first column of a cluster in Muri's form."""


def recognise(path: str, text: str) -> Kind:
    """Return the kind of a file by its name and content."""
    from weft.access.endpoints.config import PROJECT_FILE

    first = text.lstrip("\ufeff").lstrip().partition("\n")[0]
    if os.path.basename(path) == PROJECT_FILE:
        return BY_NAME["project"]
    if first.startswith("#!"):
        return BY_NAME["script"]
    if first.startswith('{"weft":"journal"') or text.startswith("SQLite format 3\0"):
        return BY_NAME["journal"]
    if first.startswith(CLUSTER_COLUMNS):
        return BY_NAME["cluster"]
    name = path.removesuffix(".gz")
    if name.endswith(".jsonl"):
        return BY_NAME["trace"]
    if name.endswith(".csv"):
        return BY_NAME["trace" if _has_trace_columns(path, text) else "sweep"]
    return _by_keys(path, text)


def _has_trace_columns(path: str, text: str) -> bool:
    """Return whether a table looks like a trace, maybe with mistakes. The columns of a sweep have any names."""
    from weft.inputs.csv import parse_table
    from weft.sim.traces.formats import all_formats

    columns = set(parse_table(text, path).columns)
    return any(known.mark in columns or len(columns.intersection(known.required)) > 1 for known in all_formats())


def _by_keys(path: str, text: str) -> Kind:
    from weft.inputs.yaml import parse_yaml

    root = parse_yaml(text.replace("\t", " "), path)
    if root.is_list:
        return BY_NAME["sweep" if _is_trial_list(root) else "tasks"]
    keys = set(root.mapping("a file").entries) if root.is_mapping else set[str]()
    found = next((kind for kind in KINDS if kind.keys & keys), None)
    if found is not None:
        return found
    if keys & _task_keys():
        return BY_NAME["tasks"]
    if root.is_mapping and any(_has_several_values(value) for value in root.mapping("a file").entries.values()):
        return BY_NAME["sweep"]
    raise InputError("the kind of this file is not known", where=f"{path}:1", hint=HINT)


def _is_trial_list(root: YamlValue) -> bool:
    """Return whether a list has trials of a sweep: mappings without any key of a task."""
    rows = [set(item.mapping("a trial").entries) for item in root.items("a list") if item.is_mapping]
    return any(rows) and not any(row & _task_keys() for row in rows)


def _has_several_values(value: YamlValue) -> bool:
    """Return whether this is a line of a grid: a list, or values such as 0.1,0.01 or 1..5."""
    from weft.access.sweeps.parameters import parse_values

    if value.is_list or value.is_mapping:
        return value.is_list
    try:
        return len(parse_values(value.text())) > 1
    except InputError:
        return False


def _task_keys() -> set[str]:
    from weft.access.jobspec.fields import READABLE

    return set(READABLE)


def _count(count: int, noun: str) -> str:
    from weft.text import plural

    return plural(count, noun)
