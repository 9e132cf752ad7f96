"""Kubeconfig files, read and merged as kubectl does it.

`$KUBECONFIG` may list several files. The first file with an entry of a name decides that entry as a
whole, the first that sets `current-context` decides the context, and files that do not exist are
skipped. Relative paths in an entry are relative to the file that has the entry. Values of another
type than kubectl expects are refused where they are used. No message contains a value of a user's
entry: most of them are secrets.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import structs

from .errors import ApiError, sentence, unusable
from .structs import converter


class _Discreet(msgspec.Struct, frozen=True):
    """What may hold secrets, and is printed without any of its values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Cluster(_Discreet, frozen=True, rename="kebab"):
    """Where a server is, and how it is recognized."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: Any = None
    """What credential plugins may want to know."""


class User(_Discreet, frozen=True, rename="kebab"):
    """How a user authenticates, and as whom the user's requests are executed."""

    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: dict[str, Any] = {}
    auth_provider: dict[str, Any] = {}
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


class Context(msgspec.Struct, frozen=True, rename="kebab"):
    """A cluster, a user, and the namespace of commands that name none."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _File(msgspec.Struct, rename="kebab"):
    """A file as a whole. Entries are checked when one of them is chosen."""

    clusters: list[dict[str, Any]] | None = None
    users: list[dict[str, Any]] | None = None
    contexts: list[dict[str, Any]] | None = None
    current_context: str | None = None


E = TypeVar("E", Cluster, User, Context)
_PATHS = {Cluster: ("certificate_authority",), User: ("token_file", "client_certificate", "client_key")}
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_as_file = converter(_File)
_readers: dict[type[Any], Any] = {struct: converter(struct) for struct in (Cluster, User, Context)}


@dataclass(frozen=True)
class Choice:
    """A context of a kubeconfig, with what it names."""

    name: str
    namespace: str
    cluster: Cluster
    user: User
    user_name: str
    source: str
    """The files, for messages."""


@dataclass(frozen=True)
class _Entry:
    fields: Any = field(repr=False)
    file: str


@dataclass(frozen=True)
class Kubeconfig:
    """All files as one."""

    files: Sequence[str]
    """Those that exist."""
    current_context: str
    entries: dict[tuple[str, str], _Entry]
    """By what they are (cluster, user, context) and their name."""

    @property
    def source(self) -> str:
        """Where this was read, for messages."""
        return f"kubeconfig {os.pathsep.join(self.files)}"

    def choose(self, context: str = "", *, cluster: str = "", user: str = "") -> Choice:
        """Return a context, or the current one, perhaps with another cluster or user.

        What it names must exist: kubectl would continue as an anonymous user.
        """
        wanted = context or self.current_context
        for kind, name in (("cluster", cluster), ("user", user)):
            if name and (kind, name) not in self.entries:
                raise self._absent(kind, name)
        if wanted or not cluster:
            if ("context", wanted) not in self.entries:
                raise self._absent("context", wanted)
            chosen = self._entry(Context, wanted)
        else:
            chosen = Context()
        chosen = structs.replace(chosen, cluster=cluster or chosen.cluster, user=user or chosen.user)
        for kind, name in ("cluster", chosen.cluster), ("user", chosen.user):
            if name and (kind, name) not in self.entries:
                raise unusable(f"the context {wanted!r} of the {self.source} names a {kind} {name!r} that is not there")
        if not chosen.cluster:
            raise unusable(f"the context {wanted!r} of the {self.source} names no cluster")
        login = self._entry(User, chosen.user) if chosen.user else User()
        return Choice(wanted, chosen.namespace, self._entry(Cluster, chosen.cluster), login, chosen.user, self.source)

    def _absent(self, wanted: str, name: str) -> ApiError:
        known = ", ".join(name for kind, name in self.entries if kind == wanted) or "none"
        problem = f"there is no {wanted} {name!r}" if name else f"no {wanted} is chosen"
        return unusable(f"{problem} in the {self.source}; it has: {known}")

    def _entry(self, wanted: type[E], name: str) -> E:
        """Return an entry with the types that kubectl expects, and with absolute paths."""
        kind = wanted.__name__.lower()
        entry = self.entries[kind, name]
        given = {key: value for key, value in entry.fields.items() if value is not None}
        try:
            read: E = _readers[wanted](given)
        except msgspec.ValidationError as error:
            where = f"the {kind} {name!r} of the kubeconfig {entry.file}"
            raise unusable(f"{where} is not valid: {sentence(error)}") from None
        return _located(read, os.path.dirname(os.path.abspath(entry.file)))


def files(flag: str = "") -> list[str]:
    """Return where kubectl looks: the path of the option, else those of $KUBECONFIG, else the one in the home directory."""
    if flag:
        return [flag]
    if listed := os.environ.get("KUBECONFIG"):
        return [path for path in dict.fromkeys(listed.split(os.pathsep)) if path]
    try:
        return [str(Path.home() / ".kube" / "config")]
    except RuntimeError:  # a user whom the machine does not know, as in many containers
        return []


def read(paths: Sequence[str]) -> Kubeconfig:
    """Read and merge files. Those that do not exist are skipped; if none exists, the result has no contexts."""
    found: list[str] = []
    current = ""
    entries: dict[tuple[str, str], _Entry] = {}
    for path in paths:
        content = _content(path)
        if content is None:
            continue
        found.append(path)
        current = current or content.current_context or ""
        entries = _entries(content, path) | entries
    return Kubeconfig(found, current, entries)


def _content(path: str) -> _File | None:
    try:
        # The C loader, where there is one: the other takes seconds for 20 KB of brackets.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        loaded = yaml.load(Path(path).read_text("utf-8"), Loader=loader)  # noqa: S506 - both are safe
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(f"the kubeconfig {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a date that is none
        raise unusable(f"the kubeconfig {path} is not YAML{_place(error)}") from None
    if loaded is not None and not isinstance(loaded, dict):
        expected = "expected a mapping with clusters, users and contexts"
        raise unusable(f"the kubeconfig {path} is not a kubeconfig: {expected}")
    try:
        return _as_file(loaded or {})
    except msgspec.ValidationError as error:
        raise unusable(f"the kubeconfig {path} is not valid: {sentence(error)}") from None


_QUOTED = re.compile(r"""'.'|"."|(['"].*)""")
"""A single character in quotes, or a longer text in quotes with all that follows."""


def _place(error: Exception) -> str:
    """Return what the parser says and where, without any text of the file: that may be a part of a token."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        problem = _QUOTED.sub(lambda found: "…" if found[1] else found[0], " ".join(str(error.problem).split()))
        return f": {problem} (line {error.problem_mark.line + 1})"
    return ""


def _entries(content: _File, path: str) -> dict[tuple[str, str], _Entry]:
    found: dict[tuple[str, str], _Entry] = {}
    for section, kind in _SECTIONS.items():
        for entry in getattr(content, section) or ():
            name, fields = entry.get("name") or "", entry.get(kind) or {}
            if not isinstance(name, str) or not isinstance(fields, dict):
                raise unusable(f"the kubeconfig {path} is not valid: expected {section} with a name and a {kind}")
            if (kind, name) in found:
                raise unusable(f"the kubeconfig {path} is not valid: it has two {section} with the name {name!r}")
            found[kind, name] = _Entry(fields, path)
    return found


def _located(entry: E, base: str) -> E:
    """Return an entry whose paths do not depend on where the process works."""
    names = _PATHS.get(type(entry), ())
    changes: dict[str, Any] = {name: os.path.join(base, path) for name in names if (path := getattr(entry, name))}
    if isinstance(entry, User) and isinstance(command := entry.exec.get("command"), str) and os.sep in command:
        changes["exec"] = entry.exec | {"command": os.path.join(base, command)}
    return msgspec.structs.replace(entry, **changes)
