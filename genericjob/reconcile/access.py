"""Where the server is, and who is asking.

An `Access` is an address, a TLS context, and the headers by which the server knows the user. It is
made from a kubeconfig or from a pod's service account. A `Credentials` keeps one up to date: tokens
are replaced while a controller runs, so a mounted one is read again every minute, and any of them
when the server answers 401. What is read again may be another token, but neither another server nor
another user to impersonate.
"""

import os
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from . import kubeconfig as kubeconfigs
from . import proxies
from .authentication import Login, bearable, login, pem, read
from .certificates import expiry
from .errors import ApiError, sentence, unusable
from .impersonation import Header, Impersonation
from .kubeconfig import Cluster
from .proxies import Proxy, redacted

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NOBODY_ELSE = Impersonation()
MOUNTED_TOKEN_AGE = 60.0
"""Seconds after which a mounted token is read again; the kubelet replaces it long before it ends."""
_SERVICE = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_HOST = re.compile(r"[A-Za-z0-9:._%-]+")


@dataclass(frozen=True)
class Access:
    """All that is needed to open a connection and to be let in."""

    host: str
    port: int
    prefix: str = field(default="", repr=False)
    """Path in front of every request, for servers behind a shared address. That of a run on this machine is a token."""
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """The name that the server's certificate must carry, where it is not the host."""
    authorization: str = field(default="", repr=False)
    impersonation: tuple[Header, ...] = ()
    """The headers that name the user as whom requests are executed, where that is another one."""
    proxy: Proxy | None = None
    authorities: str = ""
    client_certificate: str = ""
    source: str = ""
    """Where this was found, for messages."""
    context: str = ""
    """The context of the kubeconfig that was chosen."""
    user: str = ""
    """The name of the user's entry in the kubeconfig."""
    namespace: str = ""
    """Where the user means to work if nothing else is said: what the context names, or the pod's own."""

    @property
    def url(self) -> str:
        """The server's address, for people. Without TLS the path is left out, because it may be a token."""
        return f"https://{self.authority}{self.prefix}" if self.tls else f"http://{self.authority}"

    @cached_property
    def authority(self) -> str:
        """Host and port, as HTTP writes them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def described(self) -> str:
        """Where this was found, and as whom requests are executed where that is another user."""
        user = dict(self.impersonation).get("Impersonate-User", "")
        return f"{self.source}, acting as {user!r}" if user else self.source

    @cached_property
    def headers(self) -> Sequence[Header]:
        """By which the server knows who is asking: they belong to every request."""
        return [*([("Authorization", self.authorization)] if self.authorization else []), *self.impersonation]

    @cached_property
    def head(self) -> bytes:
        """The same as lines of a request."""
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers).encode()

    def same_place_as(self, before: "Access") -> bool:
        """Return whether this is the same server, asked in the name of the same user."""
        return all(getattr(self, name) == getattr(before, name) for name in ("host", "port", "prefix", "user", "impersonation"))

    def with_tls_of(self, before: "Access") -> "Access":
        """Keep the TLS context, and with it the open connections, if nothing that it is made of has changed."""
        made_of = ("authorities", "client_certificate", "server_name", "host", "port")
        same = all(getattr(self, name) == getattr(before, name) for name in made_of)
        return replace(self, tls=before.tls) if same and self.tls and before.tls else self


class Credentials:
    """The current `Access`, read again when it has become old or useless."""

    def __init__(self, load: Callable[[], Access], *, max_age: float = float("inf"), clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._max_age = max_age
        self._clock = clock
        self._lock = threading.Lock()
        self._loaded = clock()
        self._access = load()

    @property
    def current(self) -> Access:
        """What to use for the next request."""
        if self._clock() - self._loaded > self._max_age:
            with self._lock:
                if self._clock() - self._loaded > self._max_age:
                    self._read(self._access)
        return self._access

    def replace(self, refused: Access) -> bool:
        """After a 401: read again, unless another thread just did. Says whether there is anything new to try."""
        with self._lock:
            if self._access is refused:
                self._read(refused)
            return self._access.authorization != refused.authorization or self._access.client_certificate != refused.client_certificate

    def _read(self, before: Access) -> None:
        self._loaded = self._clock()
        try:
            found = self._load().with_tls_of(before)
        except ApiError:
            return  # a token that is just being replaced may be unreadable for a moment
        # The current context may have been switched meanwhile: that is meant for the next command, not for this process.
        if found.same_place_as(before):
            self._access = found


def find(
    kubeconfig: str = "",
    context: str = "",
    *,
    cluster: str = "",
    user: str = "",
    impersonate: Impersonation = NOBODY_ELSE,
    pod_first: bool = False,
) -> Credentials:
    """Return the configuration that kubectl would take.

    That is the file of the option, else $KUBECONFIG, else ~/.kube/config, else the service account of
    the pod. Files that choose no context count as absent. With `pod_first` the service account comes
    before files that no option names. `cluster` and `user` take the place of those of the context.
    """
    paths = kubeconfigs.files(kubeconfig)
    named = bool(kubeconfig or context or cluster or user)
    if not named and in_a_pod() and (pod_first or not kubeconfigs.read(paths).current_context):
        return in_cluster(impersonate=impersonate)
    return from_kubeconfig(paths, context, cluster=cluster, user=user, impersonate=impersonate)


def in_a_pod() -> bool:
    """Return whether this process has a service account."""
    return all(os.environ.get(name) for name in _SERVICE) and (SERVICE_ACCOUNT / "token").is_file()


def pod_namespace(mounted: Path | None = None) -> str:
    """Return the namespace of the pod that this process runs in, if it can be known."""
    try:
        return os.environ.get("POD_NAMESPACE") or ((mounted or SERVICE_ACCOUNT) / "namespace").read_text().strip()
    except (OSError, ValueError):
        return ""


def in_cluster(mounted: Path | None = None, *, impersonate: Impersonation = NOBODY_ELSE) -> Credentials:
    """Return a pod's own service account."""
    mounted = mounted or SERVICE_ACCOUNT

    def load() -> Access:
        source = f"service account in {mounted}"
        host, port = (os.environ.get(name, "") for name in _SERVICE)
        if not host or not port:
            raise unusable(f"the {source} cannot be used: {' and '.join(_SERVICE)} do not say where the server is")
        token = read(str(mounted / "token"), f"the token of the {source}").strip()
        if not token:
            raise unusable(f"the {source} cannot be used: its token is empty")
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        cluster = Cluster(server, certificate_authority=str(mounted / "ca.crt"))
        shown = Login(bearable(f"Bearer {token}", f"the token of the {source}"))
        return replace(_access(cluster, lambda: shown, impersonate, source), namespace=pod_namespace(mounted))

    return Credentials(load, max_age=MOUNTED_TOKEN_AGE)


def from_kubeconfig(
    path: str | Sequence[str], context: str = "", *, cluster: str = "", user: str = "", impersonate: Impersonation = NOBODY_ELSE
) -> Credentials:
    """Return a context of a kubeconfig, or of several that are merged; `impersonate` overrides its user's entry."""
    paths = [path] if isinstance(path, str) else path

    def load() -> Access:
        content = kubeconfigs.read(paths)
        if not content.files:
            raise unusable(f"there is no kubeconfig at {os.pathsep.join(paths)!r}: name one with --kubeconfig or $KUBECONFIG")
        nonlocal context
        choice = content.choose(context, cluster=cluster, user=user)
        context = choice.name  # from now on: what becomes the current context later is meant for other processes
        entry = choice.user
        configured = Impersonation(entry.as_user, entry.as_uid, entry.as_groups, entry.as_user_extra)
        access = _access(choice.cluster, lambda: login(choice), configured.overridden_by(impersonate), choice.source)
        # In a pod its namespace is the default, even for another cluster: kubectl does so.
        namespace = choice.namespace or (pod_namespace() if in_a_pod() else "")
        return replace(access, context=choice.name, user=choice.user_name, namespace=namespace)

    return Credentials(load)


def _access(cluster: Cluster, show: Callable[[], Login], impersonate: Impersonation, source: str) -> Access:
    url, port = _server(cluster, source)
    # Without TLS nothing secret is sent, and no credential plugin is run: kubectl does so.
    shown, authorities, tls = Login(), "", None
    if url.scheme == "https":
        what = f"the certificate authority in {source}"
        shown, authorities = show(), pem(cluster.certificate_authority_data, cluster.certificate_authority, what)
        tls = _tls(cluster, authorities, shown, source)
    return Access(
        host=url.hostname or "",
        port=port,
        prefix=bearable(url.path.rstrip("/"), f"the server address in {source}").replace(" ", "%20"),
        tls=tls,
        server_name=cluster.tls_server_name,
        authorization=shown.authorization,
        impersonation=impersonate.headers(source),
        proxy=proxies.choose(url, port, proxy_url=cluster.proxy_url, environment=os.environ, source=source),
        authorities=authorities,
        client_certificate=shown.certificate,
        source=source,
    )


def _server(cluster: Cluster, source: str) -> tuple[SplitResult, int]:
    """Return the address of a server. Its host becomes a part of headers, and has to be fit for that."""
    try:
        url = urlsplit(cluster.server)
        port = url.port
    except ValueError:
        raise unusable(f"the server address in {source} has a bad host or port") from None
    if url.scheme not in ("http", "https") or not url.hostname or not _HOST.fullmatch(url.hostname):
        raise unusable(f"the server address {redacted(cluster.server)!r} in {source} is not an http(s) address")
    if url.username is not None:
        raise unusable(f"the server address in {source} has a user in it: use username and password of the user's entry")
    return url, port or (443 if url.scheme == "https" else 80)


def _tls(cluster: Cluster, authorities: str, shown: Login, source: str) -> ssl.SSLContext:
    if cluster.insecure_skip_tls_verify and authorities:
        both = "both a certificate authority and insecure-skip-tls-verify"
        raise unusable(f"the cluster in {source} has {both}: remove one of them")
    try:
        context = ssl.create_default_context(cadata=authorities.encode("ascii", "ignore").decode() or None)
        # Many clusters' own authorities lack extensions that newer Pythons insist on; no other client asks for them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if shown.certificate:
            # OpenSSL reads keys from files only: this one is readable by its owner, and deleted at once.
            with tempfile.NamedTemporaryFile("w", suffix=".pem", encoding="latin-1") as file:
                file.write(f"{shown.certificate}\n{shown.key}")
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise unusable(f"a certificate or key in {source} cannot be used: {sentence(error)}") from error
    return context


def unauthorized_hint(access: Access) -> str:
    """Why the server may not know us, in words for the person who has to mend it."""
    if access.client_certificate and not access.authorization:
        ended = expiry(access.client_certificate)
        if ended and ended.timestamp() < time.time():
            return f"the client certificate in {access.source} expired on {ended:%Y-%m-%d %H:%M} UTC"
        return f"the server does not accept the client certificate in {access.source}"
    if access.authorization:
        return f"the server does not accept the token in {access.source}: it is wrong, expired or revoked"
    return f"there are no credentials in {access.source}, and the server wants some"
