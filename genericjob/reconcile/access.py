"""Where the server is, and who is asking.

The official `kubernetes` package reads kubeconfig files and a pod's service account; this module turns what it finds into an `Access`: an
address, a TLS context and an Authorization header. A `Credentials` keeps one up to date: tokens are replaced while a controller runs, so a
mounted one is read again every minute, and any of them when the server answers 401.
"""

import base64
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from .certificates import expiry
from .errors import NO_ANSWER, ApiError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MOUNTED_TOKEN_AGE = 60.0
"""Seconds after which a mounted token is read again; the kubelet replaces it long before it ends."""


@dataclass(frozen=True)
class Access:
    """All that is needed to open a connection and to be let in."""

    host: str
    port: int
    prefix: str = ""
    """Path in front of every request, for servers behind a shared address."""
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    """The name that the server's certificate must carry, where it is not the host."""
    authorization: str = ""
    proxy: SplitResult | None = None
    authorities: str = ""
    client_certificate: str = ""
    source: str = ""
    """Where this was found, for messages."""
    context: str = ""
    """The context of the kubeconfig that was chosen."""
    namespace: str = ""
    """Where the user means to work if nothing else is said: what the context names, or the pod's own."""

    @property
    def url(self) -> str:
        """The server's address, for people."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """Host and port, as HTTP writes them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

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
            self._access = self._load().with_tls_of(before)
        except ApiError:
            # A token that is just being replaced may be unreadable for a moment: the old one is as good as none.
            self._access = before


def find(kubeconfig: str = "", context: str = "") -> Credentials:
    """The configuration a user would expect: the file named, else the pod's service account, else $KUBECONFIG, else ~/.kube/config."""
    if not kubeconfig and not context and os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists():
        return in_cluster()
    return from_kubeconfig(kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config"), context)


def in_cluster(mounted: Path = SERVICE_ACCOUNT) -> Credentials:
    """A pod's own service account."""

    def load() -> Access:
        from kubernetes.client import Configuration
        from kubernetes.config.incluster_config import InClusterConfigLoader

        configuration = Configuration()
        try:
            loader = InClusterConfigLoader(str(mounted / "token"), str(mounted / "ca.crt"), try_refresh_token=False)
            loader.load_and_set(configuration)
        except Exception as error:
            raise _unusable(f"the service account of this pod ({mounted}) cannot be used: {_sentence(error)}") from error
        namespace = _text(str(mounted / "namespace"), "the service account") if (mounted / "namespace").exists() else ""
        return replace(_access(configuration, f"service account in {mounted}"), namespace=namespace.strip())

    return Credentials(load, max_age=MOUNTED_TOKEN_AGE)


def from_kubeconfig(path: str, context: str = "") -> Credentials:
    """A kubeconfig file (or several, as $KUBECONFIG lists them) and one of its contexts."""

    def load() -> Access:
        _check_files(path)
        from kubernetes.client import Configuration
        from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

        configuration = Configuration()
        try:
            content = KubeConfigMerger(path).config
            chosen, namespace = _check_context(content.value, context, path)
            with _complaints() as complaints:
                KubeConfigLoader(content, context or None, config_base_path=None).load_and_set(configuration)
        except ApiError:
            raise
        except Exception as error:
            raise _unusable(f"the kubeconfig {path} cannot be used: {_sentence(error)}") from error
        access = replace(_access(configuration, f"kubeconfig {path}"), context=chosen, namespace=namespace)
        # THE OFFICIAL LOADER ONLY LOGS A PLUGIN'S FAILURE: going on without credentials would be going on as system:anonymous.
        if complaints and not access.authorization and not access.client_certificate:
            raise _unusable(f"the credential plugin of the kubeconfig {path} failed: {' '.join(complaints)}")
        return access

    return Credentials(load)


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what the official loader logs as errors, in this thread, instead of letting it be printed."""
    found: list[str] = []
    thread = threading.get_ident()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == thread:
                found.append(" ".join(record.getMessage().split())[:300])

    collector = Collector(logging.ERROR)
    logging.getLogger().addHandler(collector)
    try:
        yield found
    finally:
        logging.getLogger().removeHandler(collector)


def _check_files(path: str) -> None:
    """Say what is wrong with a kubeconfig in the words of its reader; the official loader answers with tracebacks of its own inside."""
    import yaml

    found = False
    for name in [name for name in path.split(os.pathsep) if name]:
        try:
            # THE C LOADER, where there is one: the other takes seconds for 20 KB of brackets.
            content = yaml.load(Path(name).expanduser().read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unusable(f"the kubeconfig {name} cannot be read: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise _unusable(f"the kubeconfig {name} is not YAML: {_sentence(error)}") from error
        if not isinstance(content, dict):
            raise _unusable(f"the kubeconfig {name} is not a kubeconfig: expected a mapping with clusters, users and contexts")
        found = True
    if not found:
        raise _unusable(f"there is no kubeconfig at {path!r}: name one with --kubeconfig or $KUBECONFIG")


def _check_context(content: Any, context: str, path: str) -> tuple[str, str]:
    """The context's name and namespace. It must exist, and so must the user it names: the official loader would go on as nobody."""
    contexts = _by_name(content.get("contexts"), "context")
    wanted = context or content.get("current-context") or ""
    if wanted not in contexts:
        known = ", ".join(contexts) or "none"
        problem = f"there is no context {wanted!r}" if wanted else "no context is chosen"
        raise _unusable(f"{problem} in the kubeconfig {path}; it has: {known}")
    user = contexts[wanted].get("user")
    if user and user not in _by_name(content.get("users"), "user"):
        raise _unusable(f"the context {wanted!r} of the kubeconfig {path} names a user {user!r} that is not there")
    return wanted, str(contexts[wanted].get("namespace") or "")


def _by_name(entries: Any, kind: str) -> dict[str, dict[str, Any]]:
    # The official merger wraps what it has read.
    plain = [getattr(entry, "value", entry) for entry in entries] if isinstance(entries, list) else []
    found = [entry for entry in plain if isinstance(entry, dict)]
    return {str(entry.get("name")): entry[kind] for entry in found if isinstance(entry.get(kind), dict)}


def _access(configuration: Any, source: str) -> Access:
    url = urlsplit(configuration.host)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise _unusable(f"the server address {configuration.host!r} in {source} is not an http(s) address")
    authorities, certificate, tls = "", "", None
    if url.scheme == "https":
        certificate = _text(configuration.cert_file, source)
        authorities = _text(configuration.ssl_ca_cert, source)
        tls = _tls(configuration, source)
    return Access(
        host=url.hostname,
        port=_port(url, source),
        prefix=_clean(url.path.rstrip("/"), f"the server address in {source}").replace(" ", "%20"),
        tls=tls,
        server_name=configuration.tls_server_name or "",
        authorization=_clean(_authorization(configuration.api_key), f"the token in {source}"),
        proxy=_proxy(configuration, url.hostname, source),
        authorities=authorities,
        client_certificate=certificate,
        source=source,
    )


def _clean(text: str, what: str) -> str:
    """What goes into the head of a request may not end its line and begin another."""
    if not (text.isascii() and text.isprintable()):
        raise _unusable(f"{what} has characters that no HTTP header can hold")
    return text


def _text(path: str | None, source: str) -> str:
    try:
        return Path(path).read_text("latin-1") if path else ""
    except OSError as error:
        raise _unusable(f"{path}, named in {source}, cannot be read: {error.strerror}") from error


def _port(url: SplitResult, source: str) -> int:
    try:
        return url.port or (443 if url.scheme == "https" else 80)
    except ValueError as error:
        raise _unusable(f"the server address in {source} has a bad port: {error}") from None


def _authorization(keys: dict[str, str]) -> str:
    scheme, _, secret = (keys.get("BearerToken") or keys.get("authorization") or "").strip().partition(" ")
    # "bearer": the in-cluster loader writes it small, and leaves the file's newline in.
    return f"{'Bearer' if scheme == 'bearer' else scheme} {secret.strip()}" if secret else ""


def _tls(configuration: Any, source: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        # Many clusters' own authorities lack extensions that newer Pythons insist on; no other client asks for them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(f"a certificate or key in {source} cannot be used: {_sentence(error)}") from error
    return context


def _proxy(configuration: Any, host: str, source: str) -> SplitResult | None:
    address: str = configuration.proxy or ""
    if not address or _bypassed(host, configuration.no_proxy or ""):
        return None
    proxy = urlsplit(address)
    if proxy.scheme != "http" or not proxy.hostname:
        raise _unusable(f"the proxy {address!r} in {source} is not an http:// address, the only kind supported")
    return proxy


def _bypassed(host: str, exceptions: str) -> bool:
    names = [name.strip().lstrip(".") for name in exceptions.split(",") if name.strip()]
    return any(name == "*" or host == name or host.endswith(f".{name}") for name in names)


def proxy_authorization(proxy: SplitResult) -> str:
    """The header value for a proxy address that carries a user and a password."""
    return "Basic " + base64.b64encode(f"{proxy.username}:{proxy.password or ''}".encode()).decode() if proxy.username else ""


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


def _unusable(message: str) -> ApiError:
    return ApiError(NO_ANSWER, "Configuration", message)


def _sentence(error: BaseException) -> str:
    """An exception as one line."""
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:300]
