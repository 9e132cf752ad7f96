"""`genericjob check`: can we talk to the cluster, and as whom?"""

import time
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from genericjob.reconcile import access
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi

ROUND_TRIPS = 5

Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Path of a kubeconfig. Default: the pod's service account, $KUBECONFIG, ~/.kube/config.")
]
Context = Annotated[str, typer.Option("--context", help="Context of the kubeconfig. Default: its current one.")]


def check(kubeconfig: Kubeconfig = "", context: Context = "") -> None:
    """Check that the cluster can be reached, and show who the cluster thinks you are."""
    credentials = access.find(kubeconfig, context)
    api = HttpApi(credentials)
    version = _json(api.request("GET", "/version").data)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("Server", credentials.current.url)
    table.add_row("Found in", credentials.current.source)
    table.add_row("Version", str(version.get("gitVersion", "unknown")))
    table.add_row("You are", _who(api))
    table.add_row("Round trip", f"{_round_trip(api) * 1000:.1f} ms (best of {ROUND_TRIPS})")
    Console().print(table)


def _who(api: HttpApi) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    except ApiError as error:
        if error.refused or error.not_found:
            return "unknown (the server does not tell)"
        raise
    user = _json(answer.data).get("status", {}).get("userInfo", {})
    groups = ", ".join(user.get("groups") or ())
    return f"{user.get('username', 'unknown')}" + (f" ({groups})" if groups else "")


def _round_trip(api: HttpApi) -> float:
    best = float("inf")
    for _ in range(ROUND_TRIPS):
        begin = time.perf_counter()
        api.request("GET", "/version")
        best = min(best, time.perf_counter() - begin)
    return best


def _json(data: bytes) -> dict[str, Any]:
    found = msgspec.json.decode(data)
    return found if isinstance(found, dict) else {}
