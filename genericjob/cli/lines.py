"""YAML whose fields know their lines.

Values are read as kubectl reads them; beside each document stays the tree of nodes that it was made of, in which the line of a field can be
looked up. What nobody writes on purpose is refused before it costs anything: a field that is there twice, documents nested without end, and
references that make a page of text a gigabyte of objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

DEEPEST = 100
"""Levels of a document: a pod's template takes a dozen."""
LARGEST = 1_000_000
"""Values of a document, with what references repeat: more than the server takes in one object."""
_MERGE = "tag:yaml.org,2002:merge"
_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class NotYamlError(Exception):
    """A text that cannot be read: why, and in which line, if that is known."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True)
class Parsed:
    """One document of a text: what it says, and where."""

    value: Any
    node: yaml.Node

    def items(self, name: str) -> list["Parsed"]:
        """The elements of a list, each with its own lines."""
        _, below, _ = next(_below(self.node, name))
        nodes = below.value if isinstance(below, yaml.SequenceNode) else []
        return [Parsed(value, node) for value, node in zip(self.value[name], nodes, strict=True)]

    def line(self, path: str) -> int:
        """The line of a field such as `spec.replicaSpecs[0].type`; of one that is not there, that of the nearest that would hold it."""
        node, line = self.node, self.node.start_mark.line
        while path:
            found = next(_below(node, path), None)
            if found is None:
                break
            line, node, path = found
        return int(line) + 1


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # the quick one where there is one
    """Reads a time as the text it is: JSON knows no times."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the class above has it
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse(text: str) -> list[Parsed]:
    """The documents of a text that are not empty; raises NotYamlError."""
    try:
        _check_depth(text)
        return [found for found in _documents(text) if found.value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYamlError(error.problem or "this is not YAML", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise NotYamlError(f"this is not YAML: {str(error).splitlines()[0]}") from None
    except ValueError as error:  # a number of five thousand digits, a date that no calendar has
        raise NotYamlError(f"a value cannot be read: {str(error).partition(';')[0]}") from None


def _check_depth(text: str) -> None:
    """BEFORE ANYTHING ELSE: what reads nodes calls itself for each level, and that in C."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, _OPENING):
            depth += 1
            if depth > DEEPEST:
                mark = event.start_mark
                raise NotYamlError(f"this is nested more than {DEEPEST} levels deep", mark.line + 1 if mark else None)
        elif isinstance(event, _CLOSING):
            depth -= 1


def _documents(text: str) -> Iterator[Parsed]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _check_nodes(node)
            yield Parsed(loader.construct_document(node), node)
    finally:
        loader.dispose()


# ------------------------------------------------------------------------------------------------ what is refused


def _check_nodes(root: yaml.Node) -> None:
    """Look at each node once, those below it first, whatever refers to it."""
    sizes: dict[int, int] = {}
    stack = [(root, False)]
    while stack:
        node, seen = stack.pop()
        below = _children(node)
        if seen:
            sizes[id(node)] = size = 1 + sum(sizes[id(one)] for one in below)
            if size > LARGEST:
                raise NotYamlError("its references make it too large", node.start_mark.line + 1)
        elif id(node) not in sizes:
            _check_names(node)
            sizes[id(node)] = 0
            stack.append((node, True))
            stack += [(one, False) for one in below]
        elif not sizes[id(node)]:
            raise NotYamlError("it refers to itself", node.start_mark.line + 1)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _check_names(node: yaml.Node) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            line = key.start_mark.line + 1
            if key.value in lines:
                raise NotYamlError(f"{key.value} is there twice, first in line {lines[key.value]}", line)
            lines[key.value] = line


# ------------------------------------------------------------------------------------------------ from a path to a line


def _below(node: yaml.Node, path: str) -> Iterator[tuple[int, yaml.Node, str]]:
    """One step along a path: the line, the node there, and the rest of the path. At most one."""
    if isinstance(node, yaml.SequenceNode):
        number, bracket, rest = path.removeprefix("[").partition("]")
        if path.startswith("[") and bracket and number.isdecimal() and int(number) < len(node.value):
            found = node.value[int(number)]
            yield found.start_mark.line, found, rest.removeprefix(".")
    elif isinstance(node, yaml.MappingNode):
        # THE LONGEST NAME THAT FITS, since names of labels have dots in them; and the last of it, which is the object's own: who has read a
        # node has put what is merged into it before.
        fields = [(key, value) for key, value in reversed(node.value) if isinstance(key, yaml.ScalarNode)]
        for key, value in sorted(fields, key=lambda field: -len(field[0].value)):
            if path == key.value or path.startswith((f"{key.value}.", f"{key.value}[")):
                yield key.start_mark.line, value, path[len(key.value) :].removeprefix(".")
                return
