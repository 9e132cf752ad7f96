"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902), with the habits of the real server.

Its habits, where they go beyond or beside the RFC: `replace` of an object's missing key adds it, `test` of a missing key against null
holds, negative indices count from the end of an array, an operation without a value means null, a scalar cannot take the whole document's
place, and what stands before a path's first slash is not looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .drafts import same


class PatchError(Exception):
    """An operation that does not apply."""


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386. The target may be changed."""
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merge(result.get(name), value)
        else:
            result[name] = value
    return result


def is_operation(value: Any) -> bool:
    """Whether it can be read as an operation; whether it applies is another question."""
    return isinstance(value, dict) and all(isinstance(value.get(name) or "", str) for name in ("op", "path", "from"))


def apply(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """RFC 6902. The document may be changed."""
    for operation in operations:
        document = _operate(document, operation)
    return document


def touched(operations: Sequence[Mapping[str, Any]]) -> set[str] | None:
    """The fields of a document in which something may have changed; None if it may be anywhere."""
    found = set()
    for operation in operations:
        for path in (operation.get("path"), operation.get("from")):
            if path is not None:
                steps = str(path).split("/", 2)
                if len(steps) == 1:
                    return None  # the whole document
                found.add(_unescaped(steps[1]))
    return found


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _operate(document: Any, operation: Mapping[str, Any]) -> Any:
    name, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise PatchError(f"{name}: the path is missing")
    match name:
        case "add":
            _add(document, path, operation.get("value"))
        case "remove":
            _remove(document, path)
        case "replace":
            if path == "":
                value = operation.get("value")
                return value if isinstance(value, dict | list) else document
            _replace(document, path, operation.get("value"))
        case "move":
            value = _get(document, _source(operation))
            _remove(document, _source(operation))
            _add(document, path, value)
        case "copy":
            _add(document, path, _copied(_get(document, _source(operation))))
        case "test":
            found = document if path == "" else _get(document, path)
            if not same(found, operation.get("value")):
                raise PatchError(f"testing value {path} failed")
        case _:
            raise PatchError(f"unexpected kind: {name}")
    return document


def _source(operation: Mapping[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise PatchError(f"{operation.get('op')}: from is missing")
    return source


def _parent(document: Any, path: str) -> tuple[Any, str]:
    """The container a path leads into, and the last step."""
    steps = [_unescaped(step) for step in path.split("/")[1:]]
    if not steps:
        raise PatchError(f"doc is missing path: {path!r}")
    for step in steps[:-1]:
        document = _child(document, step)
    if not isinstance(document, dict | list):
        raise PatchError(f"doc is missing path: {path!r}")
    return document, steps[-1]


def _child(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        return container.get(step)
    if isinstance(container, list):
        return container[_index(step, len(container))]
    raise PatchError(f"doc is missing key: {step}")


def _index(step: str, size: int) -> int:
    try:
        index = int(step)
    except ValueError:
        raise PatchError(f"value was not a proper array index: '{step}'") from None
    if not -size <= index < size:
        raise PatchError(f"Unable to access invalid index: {index}")
    return index


def _get(document: Any, path: str) -> Any:
    return _child(*_parent(document, path))


def _add(document: Any, path: str, value: Any) -> None:
    container, step = _parent(document, path)
    if isinstance(container, dict):
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        index = _index(step, len(container) + 1)
        container.insert(index if index >= 0 else index + len(container) + 1, value)


def _replace(document: Any, path: str, value: Any) -> None:
    container, step = _parent(document, path)
    if isinstance(container, dict):
        container[step] = value
    else:
        container[_index(step, len(container))] = value


def _remove(document: Any, path: str) -> None:
    container, step = _parent(document, path)
    if isinstance(container, list):
        del container[_index(step, len(container))]
    elif step in container:
        del container[step]
    else:
        raise PatchError(f"Unable to remove nonexistent key: {step}")


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(child) for name, child in value.items()}
    return [_copied(child) for child in value] if isinstance(value, list) else value
