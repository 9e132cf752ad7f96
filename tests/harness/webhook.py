"""Slow admission: a validating webhook on loopback that a real API server asks, and that takes its time to answer.

    with slow_admission(plane, server, namespace, seconds=5.0) as webhook:
        ...                       # every pod that is created in the namespace is admitted 5 s later
    webhook.asked                 # how often the server asked

The webhook presents the API server's own serving certificate, which is valid for 127.0.0.1, so no other certificate is needed.
"""

import base64
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from cluster.plane import Plane
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import RAW_PODS, Key, raw

from .clusters import eventually

WEBHOOKS = raw("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False)
PROBE = {"metadata": {"generateName": "probe-"}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


class Webhook:
    """An HTTPS server that admits everything, `seconds` after it was asked. The attribute may be changed at any time."""

    def __init__(self, plane: Plane, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.asked = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        identity = plane.serving
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        self._server = _Server(("127.0.0.1", 0), self._handler())
        # The handshake is left to the thread of the connection: the one that accepts must not wait for a client.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for the API server."""
        return f"https://127.0.0.1:{self._server.server_address[1]}/"

    def admit(self, review: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to an AdmissionReview, when it is due."""
        with self._lock:
            self.asked += 1
        self._stopped.wait(self.seconds)
        answer = {"uid": review["request"]["uid"], "allowed": True}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}

    def close(self) -> None:
        """Stop the server, and answer at once whoever still waits."""
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        admit = self.admit

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes

            def do_POST(self) -> None:
                review = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
                data = msgspec.json.encode(admit(review))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An API server that gave up waiting is no error."""


@contextmanager
def slow_admission(
    plane: Plane, server: HttpApi, namespace: str, *, seconds: float, timeout: int = 10, resources: Sequence[str] = ("pods",)
) -> Iterator[Webhook]:
    """Make every create of `resources` in the namespace take `seconds`; `timeout` is how long the API server waits for the webhook."""
    webhook = Webhook(plane)
    name = f"slow-{namespace}"
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": list(resources), "scope": "Namespaced"}
    body = {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "slow.genericjob.test",
                "clientConfig": {"url": webhook.url, "caBundle": base64.b64encode(plane.ca_file.read_bytes()).decode()},
                "rules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": timeout,
            }
        ],
    }
    try:
        server.create(WEBHOOKS, body)
        try:
            if "pods" in resources:
                eventually(lambda: _asks(server, namespace, webhook))
            webhook.asked, webhook.seconds = 0, seconds
            yield webhook
        finally:
            server.delete(WEBHOOKS, Key("", name))
    finally:
        webhook.close()


def _asks(server: HttpApi, namespace: str, webhook: Webhook) -> bool:
    """Return whether the API server knows of the webhook: it learns of a new one within a second or so."""
    server.request("POST", RAW_PODS.path(namespace), {"dryRun": "All"}, PROBE)
    return webhook.asked > 0
