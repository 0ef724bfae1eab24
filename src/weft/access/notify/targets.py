"""The targets of messages, as the account that runs the scheduler configures them in a private file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from weft.access.endpoints.config import config_file
from weft.access.endpoints.private_files import read_private
from weft.errors import InputError, UnknownName
from weft.inputs.notify_choice import NotifyChoice, parse_notify
from weft.inputs.yaml import YamlMapping, YamlValue, parse_yaml

FILE: Final = "notify.yaml"
EMAIL_KEYS: Final = ("email", "smtp", "from", "user", "password_file", "security")
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "webhook": ("webhook", "token_file"),
    "webhook_file": ("webhook_file", "token_file"),
    "email": EMAIL_KEYS,
    "command": ("command",),
    "desktop": ("desktop",),
}
"""The keys of a target. The first one says what kind it is."""
SECURITY: Final = ("starttls", "tls", "none")


class Target(NamedTuple):
    name: str
    kind: str
    """webhook, email, command or desktop."""
    options: Mapping[str, str]
    command: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where messages go, without secrets: of a webhook, its host."""
        if self.kind == "webhook":
            return urlsplit(self.options["url"]).hostname or ""
        return self.options.get("to", "") or " ".join(self.command)


class Targets(NamedTuple):
    file: str
    by_name: Mapping[str, Target] = {}
    default: tuple[str, ...] = ()
    """The targets of a job that names none."""
    webhooks: tuple[str, ...] = ()
    """Beginnings of addresses that jobs may name as targets."""

    def find(self, name: str) -> Target:
        """Return a target; `name` may be the address of a webhook that the file allows."""
        if name in self.by_name:
            return self.by_name[name]
        if name.startswith("https://"):
            if any(_begins_with(name, allowed) for allowed in self.webhooks):
                return Target(name, "webhook", {"url": name})
            hint = f"use a named target, or let the operator add it to webhooks in {self.file}"
            raise InputError("webhooks of jobs at this address are not allowed", hint=hint)
        if not self.by_name:
            raise InputError("no targets for messages are configured", hint=f"describe them in {self.file}")
        raise UnknownName("target", name, sorted(self.by_name), more="weft notify list shows them")

    def resolve(self, choice: NotifyChoice) -> tuple[str, ...]:
        """Return the names of the targets of a choice. Raise if one of them does not exist."""
        names = choice.targets or self.default
        if not names:
            self.find("")
        return tuple(self.find(name).name for name in names)

    def check(self, text: str) -> None:
        """Raise if a job may not choose this."""
        self.resolve(parse_notify(text))


def targets_file(env: Mapping[str, str] = os.environ) -> str:
    return env.get("WEFT_NOTIFY_FILE") or str(config_file(env).with_name(FILE))


def read_targets(env: Mapping[str, str] = os.environ) -> Targets:
    """Read the file. Without one, there are no targets."""
    path = targets_file(env)
    try:
        text = read_private(path).decode("utf-8-sig")
    except FileNotFoundError:
        return Targets(path)
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=path) from None
    return parse_targets(text, path)


def parse_targets(text: str, file: str) -> Targets:
    if not text.strip():
        return Targets(file)
    found = parse_yaml(text, file).mapping("the targets of messages", ("targets", "default", "webhooks"))
    entries = found.require("targets").mapping("targets").entries
    by_name = {name: _target(name, value) for name, value in entries.items()}
    for name, value in entries.items():
        with value.locating():
            if parse_notify(f"done@{name}").targets != (name,):
                raise value.error(f"{name[:80]!r} cannot be the name of a target", "letters, digits, _, . and -")
    default = found.get("default")
    names = _texts(default) if default is not None else tuple(by_name)
    for name in names:
        if name not in by_name and default is not None:
            raise UnknownName("target", name, sorted(by_name), where=default.where)
    allowed = found.get("webhooks")
    webhooks = _texts(allowed) if allowed is not None else ()
    for address in webhooks:
        if allowed is not None and not (address.startswith("https://") and urlsplit(address).hostname):
            raise allowed.error(f"{address[:80]!r} is no address", "give the beginning of one: https://HOST/PATH/")
    return Targets(file, by_name, names, webhooks)


def _target(name: str, value: YamlValue) -> Target:
    kinds = [key for key in KEYS if value.is_mapping and key in value.mapping("a target").entries]
    if len(kinds) != 1:
        raise value.error(f"target {name[:80]!r} has no kind, or several", f"give one of {', '.join(KEYS)}")
    kind = kinds[0]
    given = value.mapping(f"a target with {kind}", KEYS[kind])
    if kind == "command":
        words = _texts(given.require("command"))
        if not words or not os.path.isabs(words[0]):
            raise given.require("command").error("the program has no absolute path", "such as [/usr/bin/page, --low]")
        return Target(name, "command", {}, words)
    if kind == "desktop":
        if given.text("desktop", "") not in ("true", "yes", "on"):
            raise given.require("desktop").error("desktop is not true", "remove the target, or write desktop: true")
        return Target(name, "desktop", {})
    return Target(name, "email", _email(given)) if kind == "email" else Target(name, "webhook", _webhook(given))


def _webhook(given: YamlMapping) -> dict[str, str]:
    options = {key: given.text(key, "") for key in ("token_file",)}
    file = given.get("webhook_file")
    if file is not None:
        with file.locating():
            options["url"] = secret_of(file.text())
    else:
        options["url"] = given.require("webhook").text()
    where = file or given.require("webhook")
    parts = urlsplit(options["url"])
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise where.error("the address of a webhook begins with https:// or http://", "https://HOST/PATH")
    return options


def _email(given: YamlMapping) -> dict[str, str]:
    options = {key: given.text(key, "") for key in ("from", "user", "password_file")}
    options["to"] = given.require("email").text()
    if "@" not in options["to"]:
        raise given.require("email").error("no e-mail address", "such as ann@example.org, or {user}@example.org")
    host, _, port = given.require("smtp").text().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise given.require("smtp").error("no address of a mail server", "HOST:PORT, such as mail.example.org:587")
    default = "tls" if port == "465" else "starttls" if port == "587" or options["user"] else "none"
    options |= {"host": host, "port": port, "security": given.text("security", default)}
    if options["security"] not in SECURITY:
        raise given.require("security").error("unknown security", f"use {', '.join(SECURITY)}")
    if options["user"] and not options["password_file"]:
        raise given.require("user").error("user without password_file", "name a file of mode 600 with the password")
    if options["user"] and options["security"] == "none":
        raise given.require("user").error("a password would be sent unprotected", "set security: starttls or tls")
    return options


def secret_of(path: str) -> str:
    """Return the first line of a private file."""
    try:
        lines = read_private(os.path.expanduser(path)).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        raise InputError("no such file", where=path) from None
    if not lines or not lines[0].strip():
        raise InputError("it is empty", where=path)
    return lines[0].strip()


def _texts(value: YamlValue) -> tuple[str, ...]:
    return tuple(each.text() for each in value.items("a list")) if value.is_list else (value.text(),)


def _begins_with(address: str, allowed: str) -> bool:
    """Return whether an address is at an allowed place: the same host and port, and below its path."""
    given, wanted = urlsplit(address), urlsplit(allowed)
    if (given.scheme, given.netloc) != (wanted.scheme, wanted.netloc) or "/.." in given.path or "%" in given.path:
        return False
    return given.path.startswith(wanted.path if wanted.path.endswith("/") or not wanted.path else f"{wanted.path}/")


class TargetsCache:
    """The targets as of the last change of the file."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env
        self._seen: Sequence[int] | None = None
        self._found: Targets | None = None

    def read(self) -> Targets:
        seen = self._mark()
        if self._found is None or seen != self._seen:
            self._found, self._seen = read_targets(self._env), seen
        return self._found

    def _mark(self) -> Sequence[int]:
        try:
            found = Path(targets_file(self._env)).lstat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
