"""What was applied: the note that `kubectl apply` and `genericjob apply` leave on objects, by which a field can be taken away again."""

from collections.abc import Mapping
from typing import Any

import msgspec

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST = 250_000
"""Characters; all annotations of an object together may have 256 KB."""


def remembering(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same object, with a note of what was applied."""
    text = msgspec.json.encode(body, order="sorted").decode() + "\n"
    if len(text) > LONGEST:
        return {**body}
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), LAST_APPLIED: text}}}


def last_applied(current: Mapping[str, Any]) -> dict[str, Any]:
    """What was applied before; nothing where nobody knows."""
    try:
        found = msgspec.json.decode((current["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}"))
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
