"""Starting programs and waiting until they are ready, or saying why they are not.

The state is saved after every start. What is waited for: each program's own health answer, and then the service account `default`, without
which the API server refuses pods; the controller manager makes it a moment after both say they are ready.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from cluster import ClusterError, probe
from cluster.components import APISERVER, CONTROLLERS, START_ORDER, ready_question
from cluster.layout import Layout, furnish
from cluster.processes import end, exit_code, listeners, start
from cluster.state import State

TAIL_LINES = 15


class PortTakenError(ClusterError):
    """Somebody bound a port of ours between our look and our program's bind."""


def start_all(layout: Layout, state: State, *, deadline: float) -> None:
    """Write the files, start the programs, and return when the cluster is fit for pods."""
    furnish(layout, certs=Path(state.programs) / "certs", server=state.server)
    # ONE STAGE AFTER THE OTHER: a client that finds its server missing tries again only after a pause, and the controller manager gives up
    # after ten seconds. Starting all at once is slower, and on a busy machine it fails.
    for stage in START_ORDER:
        for name in stage:
            start_one(layout, state, name)
        await_ready(layout, state, stage, deadline=deadline)
    _await_service_account(layout, state, deadline=deadline)
    state.phase = "up"
    state.save(layout.state)


def start_one(layout: Layout, state: State, name: str) -> None:
    """Start one program and write down that it runs."""
    component = state.components[name]
    try:
        component.process = start(component.argv, log=layout.log(name), mark=layout.directory)
        state.save(layout.state)
    except OSError as problem:  # no such program, or somebody takes the cluster down at this moment
        end([component.process] if component.process else [], grace=0)
        raise ClusterError(f"{name} could not be started: {problem}") from problem


def await_ready(layout: Layout, state: State, names: Sequence[str], *, deadline: float) -> None:
    """Return when all of `names` are ready; a program that ends meanwhile, or time that runs out, is an error with the end of the log."""
    waiting = list(names)
    while waiting := [name for name in waiting if not is_ready(layout, state, name)]:
        _check(layout, state, waiting[0], deadline=deadline)
        time.sleep(0.05)


def is_ready(layout: Layout, state: State, name: str) -> bool:
    """Whether a program says now that it is ready."""
    component = state.components[name]
    # ASK THE PROCESS FIRST: an etcd of somebody else on our port would answer just as well, and our API server would write into its data.
    if not component.process or component.port not in {port for _, port in listeners(component.process)}:
        return False
    token = layout.token() if name == APISERVER else None
    url, sign = ready_question(name, component.port)
    return sign in probe.answer(url, ca=layout.ca_file, token=token)


def _await_service_account(layout: Layout, state: State, *, deadline: float) -> None:
    url = f"{state.server}/api/v1/namespaces/default/serviceaccounts/default"
    while not probe.answer(url, ca=layout.ca_file, token=layout.token()):
        _check(layout, state, CONTROLLERS, deadline=deadline)
        time.sleep(0.02)


def _check(layout: Layout, state: State, awaited: str, *, deadline: float) -> None:
    """Raise if a program that was started has ended, or if time is up."""
    for name, component in state.components.items():
        if component.process and not component.process.alive:
            end_of_log = tail(layout.log(name))
            if "address already in use" in end_of_log:
                raise PortTakenError(f"port {component.port} of {name} was taken by another program")
            code = exit_code(component.process)
            how = "" if code is None else f" with exit code {code}" if code >= 0 else f" by signal {-code}"
            raise ClusterError(f"{name} ended{how} before the cluster was ready; the end of its log:\n{end_of_log}")
    if time.monotonic() > deadline:
        raise ClusterError(f"{awaited} was not ready in time; the end of its log:\n{tail(layout.log(awaited))}")


def tail(log: Path) -> str:
    """The last lines of a log, indented to stand inside a message."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:]) or "  (it is empty)"
