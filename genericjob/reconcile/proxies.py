"""Which proxy is used, by the rules of Go (`golang.org/x/net/http/httpproxy`) and so of kubectl.

The `proxy-url` of a cluster decides alone. Without one, `HTTPS_PROXY` (`HTTP_PROXY` for a server with
an http:// address) is used unless `NO_PROXY` excludes the server. The names in capitals win over
those in small letters, `ALL_PROXY` is not read, and `localhost` and loopback addresses are never
reached through a proxy of the environment.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import unusable

DEFAULT_PORTS = {"http": 80, "socks5": 1080, "socks5h": 1080}
"""The kinds of proxies that are supported."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_WITH_PORT = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*)):(?P<port>[^:\[\]]*)")


@dataclass(frozen=True)
class Proxy:
    """A proxy. Printed, it has neither user nor password."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def choose(server: SplitResult, port: int, *, proxy_url: str, environment: Mapping[str, str], source: str) -> Proxy | None:
    """Return the proxy for a server, or None. `source` says where the server was configured, for messages."""
    if proxy_url:
        return parse(proxy_url, f"proxy-url in {source}")
    name = "HTTPS_PROXY" if server.scheme == "https" else "HTTP_PROXY"
    address = _variable(name, environment)
    if not address or bypassed(server.hostname or "", port, _variable("NO_PROXY", environment)):
        return None
    if server.scheme == "http" and environment.get("REQUEST_METHOD"):
        raise unusable("HTTP_PROXY is not used in a CGI program (REQUEST_METHOD is set): a client could have set it")
    return parse(address if "://" in address else f"http://{address}", name)


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def parse(address: str, source: str) -> Proxy:
    """Return the proxy of an address."""
    try:
        url = urlsplit(address)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise unusable(f"the address {redacted(address)!r} of the proxy ({source}) is not an address") from None
    if url.scheme not in DEFAULT_PORTS or not host or not _is_name(host):
        kinds = "only http:// and socks5:// addresses are supported"
        raise unusable(f"the proxy {redacted(address)!r} ({source}) cannot be used: {kinds}")
    user, password = unquote(url.username or ""), unquote(url.password or "")
    return Proxy(url.scheme, host, port or DEFAULT_PORTS[url.scheme], user, password)


def _is_name(host: str) -> bool:
    return host.isprintable() and " " not in host


def redacted(address: str) -> str:
    """Return an address without the user, the password and the query in it, whatever else is wrong with it."""
    scheme, separator, rest = address.partition("://") if "://" in address else ("", "", address)
    place = rest.rpartition("@")[2].partition("?")[0]
    return f"{scheme if scheme.isalnum() else ''}{separator}{'***@' if '@' in rest else ''}{place}"


# ------------------------------------------------------------------------------------------------ NO_PROXY


def bypassed(host: str, port: int, exceptions: str) -> bool:
    """Return whether a server is reached without a proxy, `exceptions` being the value of NO_PROXY."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host.lower(), port, address) for entry in exceptions.split(","))


def _matches(entry: str, host: str, port: int, address: Address | None) -> bool:
    """Return whether an entry excludes a server: `*`, a network, an address or a domain; the last two may have a port."""
    if entry == "*":
        return True
    if (network := _network(entry)) is not None:
        return address is not None and address in network
    split = _WITH_PORT.fullmatch(entry)
    name, wanted = (split["six"] or split["name"] or "", split["port"]) if split else (entry, "")
    if wanted and wanted != str(port):
        return False
    if (alone := _address(name)) is not None:
        return alone == address
    domain = _ascii(name.removeprefix("*") if name.startswith("*.") else name)
    if not domain or address is not None:
        return False
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    _, slash, length = text.partition("/")
    try:
        return ipaddress.ip_network(text, strict=False) if slash and length.isdecimal() else None
    except ValueError:
        return None


def _ascii(domain: str) -> str:
    """Return a domain as it is written on the wire."""
    try:
        return ("." if domain.startswith(".") else "") + domain.removeprefix(".").encode("idna").decode()
    except UnicodeError:
        return domain
