"""Kubeconfig files for tests: the same server, reached and entered in different ways."""

from pathlib import Path
from typing import Any

import yaml


class Server:
    """What an administrator's kubeconfig says of its server."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        entry = next(c for c in content["clusters"] if c["name"] == _current(content)["cluster"])
        self.cluster: dict[str, Any] = entry["cluster"]
        user = next(u for u in content["users"] if u["name"] == _current(content)["user"])
        self.admin: dict[str, Any] = user["user"]

    @property
    def port(self) -> int:
        return int(self.cluster["server"].rsplit(":", 1)[1].rstrip("/"))

    def authority(self) -> bytes:
        """The certificate of the authority that signed the server's."""
        import base64

        data = self.cluster.get("certificate-authority-data")
        return base64.b64decode(data) if data else Path(self.cluster["certificate-authority"]).read_bytes()

    def write(self, path: Path, user: dict[str, Any], **cluster: Any) -> Path:
        """A kubeconfig for this server with that user; keywords change the cluster's entry."""
        changes = {name.replace("_", "-"): value for name, value in cluster.items()}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {k: v for k, v in (self.cluster | changes).items() if v is not None}}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path


def _current(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in content["contexts"] if c["name"] == content["current-context"])["context"]
    return found
