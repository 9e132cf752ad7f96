"""How a user of a kubeconfig authenticates, in kubectl's order.

A token or a password comes first, else a credential plugin is asked; a client certificate may be
used beside them. Plugins (`exec`, `auth-provider`) are run by the official `kubernetes` package,
which nothing else needs.
"""

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from .errors import ApiError, sentence, unusable
from .kubeconfig import Choice, Cluster, User


@dataclass(frozen=True)
class Login:
    """What is shown to a server. Printed, it has no secret in it."""

    authorization: str = field(default="", repr=False)
    """The value of the header."""
    certificate: str = ""
    """PEM."""
    key: str = field(default="", repr=False)


def login(choice: Choice) -> Login:
    """Return what a context's user shows to its server, after running a plugin if need be."""
    user, source = choice.user, choice.source
    authorization = _authorization(user, source)
    certificate = pem(user.client_certificate_data, user.client_certificate, f"the client certificate in {source}")
    key = pem(user.client_key_data, user.client_key, f"the client key in {source}")
    if certificate and not key:
        raise unusable(f"the {source} has a client certificate without its key (client-key or client-key-data)")
    if authorization or not (user.exec or user.auth_provider):
        return Login(bearable(authorization, f"the token in {source}"), certificate, key)
    if user.exec and user.auth_provider:
        raise unusable(f"the user in {source} has both exec and auth-provider: remove one of them")
    try:
        found = _run_plugin(user, choice.cluster) if user.exec else _ask_provider(choice)
    except Exception as error:
        raise unusable(f"the credential plugin of the {source} failed: {sentence(error)}") from error
    if not found.authorization and not found.certificate:
        # Continuing without credentials would be continuing as system:anonymous.
        missing = "it gave neither a token nor a certificate with its key"
        raise unusable(f"the credential plugin of the {source} failed: {missing}")
    shown = bearable(found.authorization, f"the token that the credential plugin of the {source} gave")
    return Login(shown, found.certificate or certificate, found.key or key)


def bearable(text: str, what: str) -> str:
    """Return a header's value, which may not end its line and begin another header."""
    if not (text.isascii() and text.isprintable()):
        raise unusable(f"{what} has characters that no HTTP header can hold")
    return text


def pem(data: str, path: str, what: str) -> str:
    """Return what is given as base64, or in a file."""
    try:
        return base64.b64decode(data).decode("latin-1") if data else read(path, what)
    except (binascii.Error, ValueError):
        raise unusable(f"{what} is not base64") from None


def read(path: str, what: str) -> str:
    """Return the content of a file, or nothing without a path."""
    try:
        return Path(path).read_text("latin-1") if path else ""
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "its path is not one"
        raise unusable(f"{path!r}, {what}, cannot be read: {why}") from None


def _authorization(user: User, source: str) -> str:
    token, basic = _token(user, source), bool(user.username or user.password)
    if token and basic:
        raise unusable(f"the user in {source} has both a token and a password: remove one of them")
    if basic:
        return "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode("utf-8", "replace")).decode()
    return f"Bearer {token}" if token else ""


def _token(user: User, source: str) -> str:
    """Return the token. A file that can be read wins over a token beside it: the file is the one that is renewed."""
    found, what = "", f"the token in {source}"
    if user.token_file:
        try:
            found = read(user.token_file, what).strip()
        except ApiError:
            if not user.token:
                raise
        if not found and not user.token:
            raise unusable(f"{user.token_file!r}, {what}, is empty")
    return found or user.token.strip()


def _run_plugin(user: User, cluster: Cluster) -> Login:
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    told = ConfigNode("cluster", {name: value for name, value in msgspec.to_builtins(cluster).items() if value})
    status: dict[str, Any] = ExecProvider(ConfigNode("exec", user.exec), None, told).run()
    token, certificate, key = (str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData"))
    return Login(f"Bearer {token.strip()}" if token else "", certificate if key else "", key)


def _ask_provider(choice: Choice) -> Login:
    from kubernetes.client import Configuration
    from kubernetes.config.kube_config import KubeConfigLoader

    configuration = Configuration()
    content = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {}}],
        "users": [{"name": "it", "user": {"auth-provider": choice.user.auth_provider}}],
    }
    KubeConfigLoader(content).load_and_set(configuration)
    return Login(configuration.api_key.get("BearerToken") or "")
