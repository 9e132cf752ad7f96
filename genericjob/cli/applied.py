"""What was applied: the note that `kubectl apply` and `genericjob apply` leave on objects, by which a field can be taken away again."""

from collections.abc import Mapping
from typing import Any

import msgspec

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST = 250_000
"""Bytes of all annotations of an object together; a server takes 256 KB."""


def remembering(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same object, with a note of what was applied, if there is room for one."""
    note, meta = msgspec.json.encode(body, order="sorted") + b"\n", body["metadata"]
    annotations = meta.get("annotations") or {}
    if len(note) + len(msgspec.json.encode(annotations)) > LONGEST:
        return {**body}
    return {**body, "metadata": {**meta, "annotations": {**annotations, LAST_APPLIED: note.decode()}}}


def last_applied(current: Mapping[str, Any]) -> dict[str, Any]:
    """What was applied before; nothing where nobody knows."""
    try:
        found = msgspec.json.decode((current["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}"))
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
