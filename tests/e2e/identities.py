"""The table of `test_identity.py`: surroundings, and what servers see of a program that lists jobs in them.

A case says what they see of kubectl. `ours` is what they see of `genericjob` where that differs on
purpose: a configuration with which kubectl would silently act as another user, or ask another
server, is refused.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from harness.secluded import HOSTS, NAMESPACE_OF_THE_POD, PLAIN, PROXY, SERVICE_ADDRESS, SOCKS, TOKEN_OF_THE_POD

NOTHING = "nothing is sent"
SECRET = "s3cret"
"""Part of every secret of the table: no program of ours prints it."""
ONE, TWO, CORP = "https://127.0.0.1:6443", "https://127.0.0.1:6444", f"https://{HOSTS[0]}:6443"
SERVICE = f"https://{SERVICE_ADDRESS}:6443"
BY_HTTP, BY_SOCKS = f"http://127.0.0.1:{PROXY}", f"socks5://127.0.0.1:{SOCKS}"
POD = {"KUBERNETES_SERVICE_HOST": SERVICE_ADDRESS, "KUBERNETES_SERVICE_PORT": "443"}
IN_THE_POD = f"pod/{NAMESPACE_OF_THE_POD} Bearer {TOKEN_OF_THE_POD}"


def config(server: str = ONE, *, current: str | None = "it", context: dict[str, Any] | None = None, **user: Any) -> dict[str, Any]:
    """A kubeconfig with one context; keywords are fields of its user. PKI stands for the directory of certificates."""
    fields = {name.rstrip("_").replace("_", "-"): value for name, value in ({"token": f"{SECRET}-1"} | user).items()}
    trust = {"certificate-authority": "PKI/ca.crt", "tls-server-name": "localhost"} if server.startswith("https") else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        **({"current-context": current} if current is not None else {}),
        "clusters": [{"name": "it", "cluster": {"server": server, **trust}}],
        "users": [{"name": "me", "user": {key: value for key, value in fields.items() if value is not None}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"} | (context or {})}],
    }


def cluster_with(made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A kubeconfig whose cluster has more fields."""
    made["clusters"][0]["cluster"] |= {name.replace("_", "-"): value for name, value in fields.items()}
    return made


def through(proxy: Any, server: str = ONE) -> dict[str, Any]:
    """A kubeconfig whose cluster has a proxy."""
    return cluster_with(config(server), proxy_url=proxy)


@dataclass(frozen=True)
class Case:
    name: str
    expect: str
    """What servers see of kubectl: server/namespace, proxy, credentials, and the user to impersonate."""
    files: dict[str, Any] = field(default_factory=lambda: {"config": config()})
    """By their names in a directory of this case: HERE in variables and options."""
    environment: dict[str, str] = field(default_factory=lambda: {"KUBECONFIG": "HERE/config"})
    args: tuple[str, ...] = ()
    pod: bool = False
    ours: str | None = None


ME = f"one/default Bearer {SECRET}-1"
HOME_FILE = "home/.kube/config"

BOTH = config() | {
    "clusters": [*config()["clusters"], {**config(TWO)["clusters"][0], "name": "two"}],
    "users": [*config()["users"], {"name": "two", "user": {"token": "s3cret-2"}}],
}

ORDER = [
    Case("the option wins", "two/default Bearer s3cret-2",
         {"config": config(), "other": config(TWO, token="s3cret-2")}, args=("--kubeconfig", "HERE/other")),
    Case("the option names one file, not a list", NOTHING, args=("--kubeconfig", "HERE/config:HERE/config")),
    Case("the option names no file", NOTHING, args=("--kubeconfig", "HERE/none")),
    Case("$KUBECONFIG wins over the home directory", ME, {"config": config(), HOME_FILE: config(TWO)}),
    Case("the home directory", ME, {HOME_FILE: config()}, {}),
    Case("an empty $KUBECONFIG is none", ME, {HOME_FILE: config()}, {"KUBECONFIG": ""}),
    Case("no file at all", "plain/default", {}, {}, ours=NOTHING),
    Case("$KUBECONFIG names no file, and the home directory does not stand in", "plain/default",
         {HOME_FILE: config()}, {"KUBECONFIG": "HERE/none"}, ours=NOTHING),
    Case("a tilde in $KUBECONFIG means nothing", "plain/default", {"home/c": config()}, {"KUBECONFIG": "~/c"}, ours=NOTHING),
    Case("in a pod without files", IN_THE_POD, {}, {}, pod=True),
    Case("in a pod, $KUBECONFIG", f"one/{NAMESPACE_OF_THE_POD} Bearer s3cret-1", pod=True),
    Case("in a pod, the home directory", f"one/{NAMESPACE_OF_THE_POD} Bearer s3cret-1", {HOME_FILE: config()}, {}, pod=True),
    Case("in a pod, $KUBECONFIG names no file", IN_THE_POD, {HOME_FILE: config()}, {"KUBECONFIG": "HERE/none"}, pod=True),
    Case("in a pod, a file that chooses no context", IN_THE_POD, {"config": config(current=None)}, pod=True),
    Case("in a pod, an empty file", IN_THE_POD, {"config": ""}, pod=True),
    Case("in a pod, the option names a file that chooses no context", IN_THE_POD, {"config": config(current="")},
         args=("--kubeconfig", "HERE/config"), pod=True, ours=NOTHING),
    Case("in a pod, a context of no file", NOTHING, {}, {}, args=("--context", "it"), pod=True),
    Case("in a pod, a file that cannot be read", NOTHING, {"config": "a: [1,\nb: }"}, pod=True),
    Case("in a pod, the namespace of the context", ME, {"config": config(context={"namespace": "default"})}, pod=True),
    Case("in a pod, $POD_NAMESPACE", f"pod/elsewhere Bearer {TOKEN_OF_THE_POD}", {}, {"POD_NAMESPACE": "elsewhere"}, pod=True),
    Case("in a pod, the namespace of the option", f"pod/team Bearer {TOKEN_OF_THE_POD}", {}, {}, args=("-n", "team"), pod=True),
    Case("the namespace of the context", "one/team Bearer s3cret-1", {"config": config(context={"namespace": "team"})}),
    Case("another context", "two/default Bearer s3cret-2",
         {"config": BOTH | {"contexts": [*config()["contexts"], {"name": "other", "context": {"cluster": "two", "user": "two"}}]}},
         args=("--context", "other")),
    Case("another cluster", "two/default Bearer s3cret-1", {"config": BOTH}, args=("--cluster", "two")),
    Case("another user", "one/default Bearer s3cret-2", {"config": BOTH}, args=("--user", "two")),
    Case("another cluster and user without a context", "two/default Bearer s3cret-2", {"config": BOTH | {"current-context": ""}},
         args=("--cluster", "two", "--user", "two")),
    Case("in a pod, another cluster and user", f"two/{NAMESPACE_OF_THE_POD} Bearer s3cret-2", {"config": BOTH},
         args=("--cluster", "two", "--user", "two"), pod=True),
    Case("an option names a cluster that does not exist", NOTHING, args=("--cluster", "ghost")),
    Case("an option names a user that does not exist", NOTHING, args=("--user", "ghost")),
    Case("a context that does not exist", NOTHING, args=("--context", "other")),
    Case("a user that does not exist", NOTHING, {"config": config(context={"user": "ghost"})}),
    Case("a cluster that does not exist", "plain/default", {"config": config(context={"cluster": "ghost"})}, ours=NOTHING),
    Case("no user", NOTHING, {"config": config(context={"user": None})}, ours="one/default"),  # kubectl asks the terminal for one
]  # fmt: skip


def only(section: str, made: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Config", section: made[section], **more}


LIST = {"KUBECONFIG": "HERE/config:HERE/none:HERE/other:HERE/config"}
MERGED = [
    Case("entries of several files", ME,
         {"config": only("contexts", config(), **{"current-context": "it"}),
          "other": {**config(), "contexts": None, "current-context": None}}, LIST),
    Case("the first file decides an entry", ME, {"config": config(), "other": config(TWO, token="s3cret-2")}, LIST),
    Case("an entry is decided as a whole", ME, {"config": config(), "other": config(as_="bob")}, LIST),
    Case("the first file decides the context", ME,
         {"config": config(), "other": {**config(TWO, current="b"), "contexts": [{"name": "b", "context": {"cluster": "it"}}]}}, LIST),
    Case("a context of the second file is the current one of the first", ME,
         {"config": {"current-context": "it"}, "other": {**config(), "current-context": "none"}}, LIST),
    Case("only the second file has a current context", ME, {"config": config(current=""), "other": config(TWO)}, LIST),
    Case("one of the files cannot be read", NOTHING, {"config": config(), "other": "a: [1,\nb: }"}, LIST),
    Case("two entries of one name in one file", NOTHING, {"config": config() | {"users": config()["users"] * 2}}),
    Case("paths are relative to their own files", "one/default certificate admin",
         {"config": {**config(), "users": None}, "sub/other": config(token=None, client_certificate="../PKIDIR/admin.crt",
                                                                    client_key="../PKIDIR/admin.key")},
         {"KUBECONFIG": "HERE/config:HERE/sub/other"}),
    Case("a token file beside its own file", "one/default Bearer s3cret-file",
         {"config": {**config(), "users": None}, "sub/other": config(token=None, tokenFile="token"), "sub/token": "s3cret-file\n"},
         {"KUBECONFIG": "HERE/config:HERE/sub/other"}),
]  # fmt: skip

ODD = "Acme.com/Projects & more%"
IMPERSONATED = [
    Case("a user", f"{ME} user: bob", {"config": config(as_="bob")}),
    Case("all of it", f"{ME} extra-scopes: a extra-scopes: b group: x group: z uid: 7 user: bob",
         {"config": config(as_="bob", as_uid="7", as_groups=["z", "x"], as_user_extra={"scopes": ["b", "a"]})}),
    Case("a key that is no name of a header", f"{ME} extra-acme.com%2fprojects%20&%20more%25: 1 user: bob",
         {"config": config(as_="bob", as_user_extra={ODD: ["1"]})}),
    Case("a key in other letters", f"{ME} extra-%c3%bc: ü user: jürgen", {"config": config(as_="jürgen", as_user_extra={"ü": ["ü"]})}),
    Case("groups without a user", NOTHING, {"config": config(as_groups=["x"])}),
    Case("a uid without a user", NOTHING, {"config": config(as_uid="7")}),
    Case("extra fields without a user", NOTHING, {"config": config(as_="", as_user_extra={"a": ["b"]})}),
    Case("a user who is a number", NOTHING, {"config": config(as_=7)}),
    Case("groups that are a text", NOTHING, {"config": config(as_="bob", as_groups="x")}),
    Case("extra fields that are a list", NOTHING, {"config": config(as_="bob", as_user_extra=["x"])}),
    Case("a user of two lines", NOTHING, {"config": config(as_="bob\r\nX-Evil: 1")}),
    Case("a group of two lines", NOTHING, {"config": config(as_="bob", as_groups=["x\nImpersonate-Group: system:masters"])}),
    Case("a user between spaces", f"{ME} user: bob", {"config": config(as_=" bob ")}, ours=NOTHING),
    Case("the option", f"{ME} user: bob", args=("--as", "bob")),
    Case("all options", f"{ME} group: x group: y uid: 7 user: bob",
         args=("--as", "bob", "--as-uid", "7", "--as-group", "x", "--as-group", "y")),
    Case("the option replaces a part", f"{ME} extra-a: b group: x user: alice",
         {"config": config(as_="bob", as_groups=["x"], as_user_extra={"a": ["b"]})}, args=("--as", "alice")),
    Case("an option without a user", NOTHING, args=("--as-group", "x")),
    Case("an option for the user of the kubeconfig", f"{ME} group: x user: bob", {"config": config(as_="bob")}, args=("--as-group", "x")),
    Case("an empty option", ME, args=("--as", ""), ours=NOTHING),
    Case("the option in a pod", "plain/home-of-the-pod user: bob", {}, {}, args=("--as", "bob"), pod=True, ours=f"{IN_THE_POD} user: bob"),
    Case("without TLS", "plain/default user: bob", {"config": config(f"http://127.0.0.1:{PLAIN}", as_="bob")}),
]  # fmt: skip

PLUGIN = f"""#!{sys.executable}
print('{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "s3cret-of-the-plugin"}}}}')
"""


def plugin(command: str) -> dict[str, Any]:
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "Never"}


PROVED = [
    Case("a client certificate", "one/default certificate admin",
         {"config": config(token=None, client_certificate="PKI/admin.crt", client_key="PKI/admin.key")}),
    Case("a certificate without its key", NOTHING, {"config": config(token=None, client_certificate="PKI/admin.crt")}),
    Case("a token file", "one/default Bearer s3cret-file", {"config": config(token=None, tokenFile="token"), "token": " s3cret-file\n"}),
    Case("a token file wins over a token", "one/default Bearer s3cret-file", {"config": config(tokenFile="token"), "token": "s3cret-file"}),
    Case("a token, and a file that is not there", ME, {"config": config(tokenFile="token")}),
    Case("an empty token, and a file", "one/default Bearer s3cret-file",
         {"config": config(token="", tokenFile="token"), "token": "s3cret-file"}),
    Case("a token file that is not there", NOTHING, {"config": config(token=None, tokenFile="token")}),
    Case("a password", "one/default Basic bWU6czNjcmV0OsO8", {"config": config(token=None, username="me", password="s3cret:ü")}),
    Case("a user without a password", "one/default Basic bWU6", {"config": config(token=None, username="me")}),
    Case("a token and a password", NOTHING, {"config": config(username="me", password="s3cret")}),
    Case("a token that is a number", NOTHING, {"config": config(token=7)}),
    Case("a token without TLS", "plain/default", {"config": config(f"http://127.0.0.1:{PLAIN}")}),
    Case("a password without TLS", "plain/default",
         {"config": config(f"http://127.0.0.1:{PLAIN}", token=None, username="me", password="s3cret")}),
    Case("a credential plugin", "one/default Bearer s3cret-of-the-plugin",
         {"config": config(token=None, exec=plugin("HERE/plugin")), "plugin": PLUGIN}),
    Case("a credential plugin beside its file", "one/default Bearer s3cret-of-the-plugin",
         {"sub/config": config(token=None, exec=plugin("./plugin")), "sub/plugin": PLUGIN}, {"KUBECONFIG": "HERE/sub/config"}),
    Case("a credential plugin that is not asked", ME, {"config": config(exec=plugin("HERE/none"))}),
    Case("a credential plugin that is not there", NOTHING, {"config": config(token=None, exec=plugin("HERE/none"))}),
    Case("a user in the address", "one/default Basic bWU6czNjcmV0", {"config": config(ONE.replace("//", "//me:s3cret@"))}, ours=NOTHING),
    Case("insecure, with an authority", NOTHING, {"config": cluster_with(config(), insecure_skip_tls_verify=True)}),
]  # fmt: skip


def proxied(name: str, expect: str, server: str = SERVICE, *, ours: str | None = None, pod: bool = False, **environment: str) -> Case:
    """A case about variables of proxies."""
    return Case(name, expect, {"config": config(server)}, {"KUBECONFIG": "HERE/config", **environment}, ours=ours, pod=pod)


HTTP = "one/default by http Bearer s3cret-1"
LOGIN = "one/default by http al@ice:s3cret/pass Bearer s3cret-1"


def excluded(entries: str, server: str, expect: str) -> Case:
    """A case about NO_PROXY."""
    return proxied(f"NO_PROXY {entries!r} and {server}", expect, server, HTTPS_PROXY=BY_HTTP, NO_PROXY=entries)


PROXIED = [
    proxied("no proxy", ME),
    proxied("HTTPS_PROXY", HTTP, HTTPS_PROXY=BY_HTTP),
    proxied("https_proxy", HTTP, https_proxy=BY_HTTP),
    proxied("capitals win", HTTP, HTTPS_PROXY=BY_HTTP, https_proxy=BY_SOCKS),
    proxied("empty capitals do not", HTTP, HTTPS_PROXY="", https_proxy=BY_HTTP),
    proxied("a name is not resolved here", HTTP, CORP, HTTPS_PROXY=BY_HTTP),
    proxied("an address without a scheme", HTTP, HTTPS_PROXY=f"127.0.0.1:{PROXY}"),
    proxied("HTTP_PROXY is not for TLS", ME, HTTP_PROXY=BY_HTTP),
    proxied("HTTPS_PROXY is not for plain HTTP", "plain/default", f"http://{HOSTS[0]}:{PLAIN}", HTTPS_PROXY=BY_HTTP),
    proxied("HTTP_PROXY is for plain HTTP", "plain/default by http", f"http://{HOSTS[0]}:{PLAIN}", HTTP_PROXY=BY_HTTP),
    proxied("HTTP_PROXY in a CGI program", NOTHING, f"http://{HOSTS[0]}:{PLAIN}", HTTP_PROXY=BY_HTTP, REQUEST_METHOD="GET"),
    proxied("ALL_PROXY is not read", ME, ALL_PROXY=BY_HTTP, all_proxy=BY_HTTP),
    proxied("a login", LOGIN, HTTPS_PROXY=f"http://al%40ice:s3cret%2Fpass@127.0.0.1:{PROXY}"),
    proxied("a login without a scheme", LOGIN, HTTPS_PROXY=f"al%40ice:s3cret%2Fpass@127.0.0.1:{PROXY}"),
    proxied("SOCKS", "one/default by socks Bearer s3cret-1", HTTPS_PROXY=BY_SOCKS),
    proxied("SOCKS with a login", "one/default by socks me:s3cret Bearer s3cret-1", CORP, HTTPS_PROXY=f"socks5://me:s3cret@127.0.0.1:{SOCKS}"),
    proxied("a proxy that speaks TLS", NOTHING, HTTPS_PROXY=f"https://me:s3cret@127.0.0.1:{PROXY}"),
    proxied("loopback", ME, ONE, HTTPS_PROXY=BY_HTTP),
    proxied("localhost", ME, "https://localhost:6443", HTTPS_PROXY=BY_HTTP),
    proxied("loopback of version six", ME, "https://[::1]:6443", HTTPS_PROXY=BY_HTTP),
    proxied("another loopback", ME, "https://127.1.2.3:6443", HTTPS_PROXY=BY_HTTP),
    excluded("*", SERVICE, ME),
    excluded("10.96.0.0/12", SERVICE, ME),
    excluded("10.100.3.4/12", SERVICE, ME),
    excluded("172.30.0.0/16, 10.96.0.0/12", SERVICE, ME),
    excluded("172.30.0.0/16", SERVICE, HTTP),
    excluded("10.96.0.0/99", SERVICE, HTTP),
    excluded("10.96.0.1", SERVICE, ME),
    excluded("10.96.0.1:6443", SERVICE, ME),
    excluded("10.96.0.1:443", SERVICE, HTTP),
    excluded("10.96.0", SERVICE, HTTP),
    excluded("api.corp.test", CORP, ME),
    excluded("API.Corp.Test", CORP, ME),
    excluded("corp.test", CORP, ME),
    excluded(".corp.test", CORP, ME),
    excluded("*.corp.test", CORP, ME),
    excluded("corp.test:6443", CORP, ME),
    excluded(".corp.test:443", CORP, HTTP),
    excluded("test", CORP, ME),
    excluded("rp.test", CORP, HTTP),
    excluded("*corp.test", CORP, HTTP),
    excluded(".corp.test", "https://corp.test:6443", HTTP),
    excluded("corp.test", "https://corp.test:6443", ME),
    excluded("127.0.0.0/8", CORP, HTTP),
    excluded(",, other.test ,", "https://other.test:6443", ME),
    excluded(":6443", CORP, HTTP),
    Case("in a pod", f"pod/{NAMESPACE_OF_THE_POD} by http Bearer {TOKEN_OF_THE_POD}", {}, {"HTTPS_PROXY": BY_HTTP}, pod=True),
    Case("in a pod, as operators are set up", IN_THE_POD, {},
         {"HTTPS_PROXY": BY_HTTP, "NO_PROXY": ".cluster.local,.svc,10.96.0.0/12"}, pod=True),
    Case("proxy-url", HTTP, {"config": through(BY_HTTP, SERVICE)}),
    Case("proxy-url for loopback", HTTP, {"config": through(BY_HTTP)}),
    Case("proxy-url wins", HTTP, {"config": through(BY_HTTP)},
         {"KUBECONFIG": "HERE/config", "NO_PROXY": "*", "no_proxy": "127.0.0.1", "HTTPS_PROXY": BY_SOCKS}),
    Case("proxy-url with a login", LOGIN, {"config": through(f"http://al%40ice:s3cret%2Fpass@127.0.0.1:{PROXY}")}),
    Case("proxy-url by SOCKS", "one/default by socks me:s3cret Bearer s3cret-1",
         {"config": through(f"socks5://me:s3cret@127.0.0.1:{SOCKS}", CORP)}),
    Case("proxy-url without a scheme", NOTHING, {"config": through(f"me:s3cret@127.0.0.1:{PROXY}")}),
    Case("proxy-url of another kind", NOTHING, {"config": through(f"ftp://me:s3cret@127.0.0.1:{PROXY}")}),
    Case("proxy-url that is a number", NOTHING, {"config": through(7)}),
]  # fmt: skip

CASES = {
    f"{part}: {case.name}": case
    for part, cases in (("order", ORDER), ("merged", MERGED), ("as", IMPERSONATED), ("login", PROVED), ("proxy", PROXIED))
    for case in cases
}
