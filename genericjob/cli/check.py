"""`genericjob check`: can we talk to the cluster, and as whom?"""

import time
from typing import Any

import msgspec
import typer

from genericjob.api import names
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.http import HttpApi, Throttling, Timeouts
from genericjob.reconcile.resources import LEASES, Key

from .jobs import JOBS, Job, key_of, status_of
from .main import HOW_TO_INSTALL
from .options import HOME, LEASE, Context, Kubeconfig, Local, Namespace, lease_name, target
from .tables import age, moment, now
from .text import one_line, say

ROUND_TRIPS = 5
NOTHING_ALLOWED = "nothing"
RIGHTS = (
    ("list", names.GROUP, names.PLURAL, "", "list jobs"),
    ("create", names.GROUP, names.PLURAL, "", "create them"),
    ("patch", names.GROUP, names.PLURAL, "", "change them"),
    ("delete", names.GROUP, names.PLURAL, "", "delete them"),
    ("list", "", "pods", "", "see pods"),
    ("get", "", "pods", "log", "read logs"),
    ("create", "", "pods", "exec", "run commands in pods"),
)
"""What the commands need: verb, group, resource, subresource, and in words."""
MOST_JOBS = 500
"""Jobs by whose status it is seen whether a controller works."""
SEEN_WITHIN_S = 10.0
"""Seconds in which a controller that works has seen a new job."""
PATIENCE = 10.0
"""Seconds that a person waits for an answer before wondering."""


def check(kubeconfig: Kubeconfig = "", context: Context = "", namespace: Namespace = None, run: Local = None) -> None:
    """Check that the cluster can be reached, and show who the cluster thinks you are.

    Also whether jobs can be made there, whether a controller runs them, and what you may do in the namespace.

    Exit code 1 when the cluster cannot be reached, does not know jobs, or lets you do nothing with them.
    """
    where = target(kubeconfig, context, namespace, run)
    credentials, found = where.credentials, where.credentials.current
    api = HttpApi(credentials, timeouts=Timeouts(read=PATIENCE, write=PATIENCE), throttling=Throttling(tries=0))
    failed = False
    for title, text in (
        ("Server", found.url),
        ("Found in", found.described),
        ("Version", _server_version(api, found.url)),
        ("You are", "the user of this run" if where.local else _who(api)),
        ("Ready", _ready(api)),
        ("Jobs", _kind(api)),
        ("Controller", "this run" if where.local else _controller(api, where.namespace)),
        ("You may", _rights(api, where.namespace)),
        ("Round trip", f"{_round_trip(api) * 1000:.1f} ms (best of {ROUND_TRIPS})"),
    ):
        say(f"{title:<11} {one_line(text)}")
        failed = failed or text.endswith(HOW_TO_INSTALL) or text.startswith(f"{NOTHING_ALLOWED};")
    if failed:
        raise typer.Exit(1)


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


def _kind(api: HttpApi) -> str:
    """Whether the server knows our kind. EVERYBODY MAY ASK THAT: who may not list jobs still learns whether there are any."""
    try:
        answer = _json(api.request("GET", f"/apis/{names.API_VERSION}").data)
    except ApiError as error:
        if error.not_found:
            return f"{names.PLURAL}.{names.GROUP} is not installed: {HOW_TO_INSTALL}"
        return f"unknown: {error.message}"
    known = [each.get("name") for each in answer.get("resources") or () if isinstance(each, dict)]
    return f"{names.PLURAL}.{names.GROUP} {names.VERSION}" + ("" if names.PLURAL in known else " is not among those the server knows")


def _controller(api: Api, namespace: str) -> str:
    """Say who runs the jobs of a namespace: the cluster-wide controller, or one that watches this namespace only.

    A controller that runs without --leader-elect holds no lease: what it has done to jobs shows whether there is one.
    """
    leads, everywhere = _leader(api, LEASE)
    if leads:
        return everywhere
    leads, here = _leader(api, lease_name([namespace]))
    if leads:
        return f"{here}, in namespace {namespace} only"
    return f"{_seen_by_its_work(api, namespace)}; {everywhere}"


def _leader(api: Api, name: str) -> tuple[bool, str]:
    """Return whether a controller holds this lease, and that in words."""
    place = f"the lease {HOME}/{name}"
    try:
        spec = api.get(LEASES, Key(HOME, name)).get("spec") or {}
    except ApiError as error:
        if error.not_found:
            return False, f"nobody has {place}, which a controller without --leader-elect does not need"
        return False, f"you may not read {place}" if error.refused else f"{place} cannot be read: {error.message}"
    renewed, holder = moment(spec.get("renewTime")), spec.get("holderIdentity") or ""
    if not holder or renewed is None:
        return False, f"nobody has {place} now"
    if (now() - renewed).total_seconds() > (spec.get("leaseDurationSeconds") or 0):
        return False, f"{holder} had {place}, and has not renewed it for {age(renewed)}"
    return True, f"{holder} leads"


def _seen_by_its_work(api: Api, namespace: str) -> str:
    """Say whether a controller has seen the jobs of a namespace."""
    try:
        jobs = api.list(JOBS, namespace, limit=MOST_JOBS).items
    except ApiError as error:
        if error.not_found:
            return "unknown: the server knows no jobs"
        return "unknown: you may not list jobs" if error.refused else f"unknown: {error.message}"
    ours = [job for job in jobs if job["spec"].get("managedBy") in (None, names.MANAGER)]
    if not ours:
        return f"unknown: in namespace {namespace} there is no job by which to see it"
    waiting = [job for job in ours if not _is_seen(job)]
    created = {key_of(job).name: moment(job["metadata"].get("creationTimestamp")) or now() for job in waiting or ours}
    first, last = min(created, key=lambda name: created[name]), max(created.values())
    if not waiting:
        seen = "the only job" if len(ours) == 1 else f"all {len(ours)} jobs"
        return f"one has seen {seen} of namespace {namespace}, the newest created {age(last)} ago"
    if (now() - created[first]).total_seconds() < SEEN_WITHIN_S:
        return f"unknown: the job {first} is too new"
    several = f"{len(waiting)} of {len(ours)} jobs of namespace {namespace}"
    return f"none works: no controller has seen the last change of {several}, among them {first}, created {age(created[first])} ago"


def _is_seen(job: Job) -> bool:
    status = status_of(job)
    return bool(status.conditions) and status.observed_generation >= job["metadata"].get("generation", 0)


def _rights(api: HttpApi, namespace: str) -> str:
    """What the user may do, and what not, as the server says."""
    may: dict[bool, list[str]] = {True: [], False: []}
    for verb, group, resource, sub, words in RIGHTS:
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        try:
            answer = _json(api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review).data)
        except ApiError as error:
            return "unknown: you may not ask" if error.refused or error.not_found else f"unknown: {error.message}"
        status = answer.get("status")
        may[bool(status.get("allowed")) if isinstance(status, dict) else False].append(words)
    told, others = ", ".join(may[True]) or NOTHING_ALLOWED, ", ".join(may[False])
    return f"{told}{f'; not: {others}' if others else ''} (in namespace {namespace})"


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
