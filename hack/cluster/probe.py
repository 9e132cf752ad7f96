"""Short questions over HTTP to programs on loopback."""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE = 5.0


def answer(url: str, *, ca: Path, token: str | None = None) -> str:
    """What GET `url` says; nothing if it refuses, for whatever reason: they all mean "not yet"."""
    try:
        return fetch(url, ca=ca, token=token).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return ""


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST JSON and read JSON."""
    said: dict[str, Any] = json.loads(fetch(url, body=json.dumps(body).encode()))
    return said


def fetch(url: str, *, ca: Path | None = None, token: str | None = None, body: bytes | None = None) -> bytes:
    """One request, one answer."""
    # Loopback never goes through a proxy, whatever the environment says.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if ca:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, data=body, headers=headers)
    with urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE) as response:
        content: bytes = response.read()
        return content
