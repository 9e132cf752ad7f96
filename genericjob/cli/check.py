"""`genericjob check`: can we talk to the cluster, and as whom?"""

import time
from typing import Annotated, Any

import msgspec
import typer

from genericjob.reconcile import access
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.http import HttpApi, Throttling, Timeouts

ROUND_TRIPS = 5
PATIENCE = 10.0
"""Seconds that a person waits for an answer before wondering."""

Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Path of a kubeconfig. Default: the pod's service account, $KUBECONFIG, ~/.kube/config.")
]
Context = Annotated[str, typer.Option("--context", help="Context of the kubeconfig. Default: its current one.")]


def check(kubeconfig: Kubeconfig = "", context: Context = "") -> None:
    """Check that the cluster can be reached, and show who the cluster thinks you are."""
    credentials = access.find(kubeconfig, context)
    api = HttpApi(credentials, timeouts=Timeouts(read=PATIENCE, write=PATIENCE), throttling=Throttling(tries=0))
    found = credentials.current
    for title, text in (
        ("Server", found.url),
        ("Found in", found.source),
        ("Version", _server_version(api, found.url)),
        ("You are", _who(api)),
        ("Ready", _ready(api)),
        ("Round trip", f"{_round_trip(api) * 1000:.1f} ms (best of {ROUND_TRIPS})"),
    ):
        typer.echo(f"{title:<11} {text}")


def _server_version(api: HttpApi, url: str) -> str:
    found = _json(api.request("GET", "/version").data).get("gitVersion")
    if not isinstance(found, str):
        raise ApiError(NO_ANSWER, "Unreadable", f"{url} does not answer as a Kubernetes API server does: is the address right?")
    return found


def _who(api: HttpApi) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    except ApiError as error:
        if error.refused or error.not_found:
            return "system:anonymous, or somebody who may not ask who they are"
        raise
    status = _json(answer.data).get("status")
    user = status.get("userInfo") if isinstance(status, dict) else None
    user = user if isinstance(user, dict) else {}
    groups = ", ".join(user.get("groups") or ())
    return f"{user.get('username', 'unknown')}" + (f" ({groups})" if groups else "")


def _ready(api: HttpApi) -> str:
    try:
        api.request("GET", "/readyz")
    except ApiError as error:
        return "unknown: you may not ask" if error.refused or error.not_found else f"no: {error.message}"
    return "yes"


def _round_trip(api: HttpApi) -> float:
    best = float("inf")
    for _ in range(ROUND_TRIPS):
        begin = time.perf_counter()
        api.request("GET", "/version")
        best = min(best, time.perf_counter() - begin)
    return best


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
