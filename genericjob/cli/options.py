"""Options that many commands share, and what they lead to: a server, and a namespace on it."""

import hashlib
import re
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from genericjob.local import runs
from genericjob.reconcile import access
from genericjob.reconcile.access import Credentials
from genericjob.reconcile.api import Body, Operations
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import JSON, Answer, HttpApi, Timeouts
from genericjob.reconcile.resources import Key
from genericjob.reconcile.stream import HttpText

from .acting import Acting
from .failures import BAD_INPUT, CommandError, Debugging
from .text import say

DEFAULT_NAMESPACE = "default"
LEASE = "genericjob-controller"
HOME = "genericjob-system"
"""The lease of the cluster-wide controller, and where it is when that runs outside a cluster."""
LONGEST_NAME = 253
"""Characters of the name of a Lease."""
PATIENCE = Timeouts(read=30.0, write=30.0)
"""A person waits longer than a controller that others wait for."""
NAMESPACE_PATTERN = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def lease_name(namespaces: Collection[str]) -> str:
    """Return the lease that controllers of the same namespaces share; no namespaces means all of them.

    The name says nothing about the kinds that a controller runs: a rolling update that adds a kind
    would otherwise have two leaders.
    """
    if not namespaces:
        return LEASE
    chosen = ".".join(sorted(set(namespaces)))
    if len(LEASE) + 1 + len(chosen) > LONGEST_NAME:
        chosen = hashlib.sha256(chosen.encode()).hexdigest()  # 64 characters, so no namespace has this name
    return f"{LEASE}.{chosen}"


def _runs() -> list[str]:
    """The runs on this machine; none if anything is in the way."""
    try:
        return runs.runs()
    except (runs.RunError, OSError):
        return []


def _complete_run(incomplete: str) -> list[str]:
    return [name for name in _runs() if name.startswith(incomplete)]


Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Path of a kubeconfig. Default: $KUBECONFIG, ~/.kube/config, the service account of a pod.")
]
Context = Annotated[str, typer.Option("--context", help="Context of the kubeconfig. Default: its current one.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the jobs. Default: the context's, else default.", show_default=False)
]
Local = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="RUN",
        help='A run on this machine in place of a cluster, by its name; "-" is the only one there is.',
        show_default=False,
        autocompletion=_complete_run,
    ),
]
OUTPUTS = ("wide", "yaml", "json", "name")
JSONPATH = "jsonpath="


def _output(value: str | None) -> str | None:
    if value is None or value in OUTPUTS or value.startswith(JSONPATH):
        return value
    raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, OUTPUTS))}, '{JSONPATH}TEMPLATE'.")


Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="wide|yaml|json|name|jsonpath=TEMPLATE",
        help="More columns, the whole objects, names only, or what a template says: jsonpath='{.status.phase}'.",
        callback=_output,
        autocompletion=lambda incomplete: [each for each in (*OUTPUTS, JSONPATH) if each.startswith(incomplete)],
        show_default=False,
    ),
]


class NoRunError(CommandError):
    """There is no run of that name on this machine, or not any more."""


@dataclass(frozen=True)
class Target:
    """Whom a command talks to, and about which namespace."""

    api: HttpApi
    namespace: str
    where: str
    """For messages: `context foo`, `run hello`."""
    credentials: Credentials
    local: bool = False
    """Whether it is a run on this machine: one that does not answer has ended."""
    options: str = ""
    """Those that lead here, for commands that are proposed: ` --run hello`."""
    home: str = DEFAULT_NAMESPACE
    """The namespace that these options mean if none is named."""

    def command(self, words: str, namespace: str = "") -> str:
        """A command that can be copied: one that is about the same server and namespace, or another one of its namespaces."""
        wanted = namespace or self.namespace
        return f"genericjob {words}{self.options}" + (f" -n {wanted}" if wanted != self.home else "")

    def key(self, name: str) -> Key:
        """An object of the namespace."""
        return Key(self.namespace, name)


def target(kubeconfig: str = "", context: str = "", namespace: str | None = None, run: str | None = None) -> Target:
    """The server that the options name, and the namespace."""
    if namespace is not None and not NAMESPACE_PATTERN.fullmatch(namespace):
        # AN EMPTY NAME MOSTLY IS a variable of a shell that nobody has set.
        hint = "lower-case letters, digits and dashes, 63 at most" if namespace else "leave the option out for the default"
        raise CommandError(f"{namespace!r} is no name of a namespace: {hint}", BAD_INPUT)
    if run is None:
        credentials = _credentials(kubeconfig, context)
        found = credentials.current
        place = f"cluster {Acting.cluster}" if Acting.cluster else f"context {found.context}" if found.context else found.source
        there, where = found.namespace, place
        given = [("--kubeconfig", kubeconfig), ("--context", context), *Acting.options()]
    else:
        if kubeconfig or context or Acting.options():
            raise CommandError(
                "--run names a run on this machine, --kubeconfig, --context, --cluster, --user and --as a cluster: choose one", BAD_INPUT
            )
        try:
            reached = runs.reach(run)
        except runs.RunError as error:
            raise NoRunError(str(error), BAD_INPUT) from None
        credentials, there, where = reached.credentials, reached.namespace, f"run {reached.name}"
        given = [("--run", reached.name)]
    api = (_Talkative if Debugging.on else HttpApi)(credentials, timeouts=PATIENCE)
    home = there or DEFAULT_NAMESPACE
    options = "".join(f" {name} {shlex.quote(value)}" for name, value in given if value)
    return Target(api, namespace or home, where, credentials, local=run is not None, options=options, home=home)


def _credentials(kubeconfig: str, context: str) -> Credentials:
    """A cluster; where none is configured at all and a run is going on, that one may have been meant."""
    try:
        return access.find(kubeconfig, context, cluster=Acting.cluster, user=Acting.user, impersonate=Acting.chosen)
    except ApiError as error:
        going_on = [] if kubeconfig or context else _runs()
        if not going_on:
            raise
        what = "a run is going on" if len(going_on) == 1 else "runs are going on"
        raise CommandError(f"{error}; {what}: {', '.join(f'--run {name}' for name in going_on)}") from error


class _Talkative(HttpApi):
    """Says what it asks for: `--debug`."""

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | Operations = b"",
        *,
        content: str = JSON,
        gzip: bool = False,
        most: int = 0,
    ) -> Answer:
        """One request."""
        _say(method, path, query)
        return super().request(method, path, query, body, content=content, gzip=gzip, most=most)

    def text(self, path: str, query: Mapping[str, str] | None = None, *, whole: bool = True) -> HttpText:
        """One log."""
        _say("GET", path, query)
        return super().text(path, query, whole=whole)


def _say(method: str, path: str, query: Mapping[str, Any] | None) -> None:
    asked = "&".join(f"{name}={value}" for name, value in (query or {}).items() if value)
    say(f"genericjob: {method} {path}{'?' if asked else ''}{asked}", err=True)


def interactive() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()
