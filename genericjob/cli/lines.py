"""YAML whose fields know their lines.

Values are read as kubectl reads them, which follows no version of YAML: `yes` and `y` are true, `1e3` and `08` are numbers, `22:22` is
text, and names are always text. Beside each document stays the tree of nodes that it was made of, in which the line of a field can be
looked up. What nobody writes on purpose is refused before it costs anything: a field that is there twice, documents nested without end, and
references that make a page of text a gigabyte of objects.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

DEEPEST = 100
"""Levels of a document: a pod's template takes a dozen."""
LARGEST = 1_000_000
"""Values of a document, with what references repeat: more than the server takes in one object."""
_TEXT, _NULL, _BOOL, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{type}" for type in ("str", "null", "bool", "float", "merge"))
_LIKE_A_NUMBER = "!like-a-number"
"""What begins as a number does, and may be one."""
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
    """Takes for a number, a flag or nothing what kubectl takes for it; a time is the text it is: JSON knows no times."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as the class above has it
    bool_values = yaml.SafeLoader.bool_values | {"y": True, "n": False}

    def number(self, node: yaml.ScalarNode) -> float | str:
        """A number, or text that only began as one."""
        return _number(node.value)

    def fraction(self, node: yaml.ScalarNode) -> float:
        """A number that says so itself, by a tag or as `.inf`."""
        value = self.construct_yaml_float(node)
        if not math.isfinite(value):
            raise yaml.constructor.ConstructorError(problem=f"{node.value} is no number that JSON knows", problem_mark=node.start_mark)
        return float(value)


for _tag, _pattern, _first in (
    (_BOOL, r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_FLOAT, r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    (_LIKE_A_NUMBER, r"[-+]?[.0-9_].*", "-+.0123456789"),
    (_MERGE, "<<", "<"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor(_LIKE_A_NUMBER, _Loader.number)
_Loader.add_constructor(_FLOAT, _Loader.fraction)
_Loader.add_constructor(_MERGE, _Loader.construct_yaml_str)  # as a value it is text


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes for kubectl: text that it would take for a number stands in quotes, though PyYAML would take it for text."""


Dumper.add_implicit_resolver(
    _LIKE_A_NUMBER,
    re.compile(r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\.?[0-9][0-9_.]*(?:[eE][-+]?[0-9_]+)?)\Z"),
    [*"-+.0123456789"],
)
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def _number(text: str) -> float | str:
    """What kubectl reads: a whole number of 64 bits in any base, else a decimal one; what is neither, or too large for both, is text."""
    plain = text.replace("_", "")
    try:
        whole = int(plain, 8 if _OCTAL.fullmatch(plain) else 0) if plain.isascii() else None
    except ValueError:
        whole = None
    if whole is not None and -(2**63) <= whole < 2**64:
        return whole if whole < 2**63 else float(whole)
    value = float(plain) if _DECIMAL.fullmatch(plain) else math.inf
    if not math.isfinite(value):
        return text
    return int(value) if value.is_integer() and abs(value) < 2**63 else value  # JSON makes no difference between 5 and 5.0


def parse(text: str) -> list[Parsed]:
    """The documents of a text that are not empty; raises NotYamlError."""
    try:
        _check_depth(text)
        return [found for found in _documents(text) if found.value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NotYamlError(_why(error.problem, text, mark.line if mark else -1), mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise NotYamlError(f"this is not YAML: {str(error).splitlines()[0]}") from None
    except ValueError as error:  # a number of five thousand digits, a date that no calendar has
        raise NotYamlError(f"a value cannot be read: {str(error).partition(';')[0]}") from None


def _why(problem: str | None, text: str, line: int) -> str:
    found = text.split("\n")[line : line + 1] if line >= 0 else []
    if found and re.match(r" *\t", found[0]):
        return "a tab: YAML is indented with spaces"
    quotes = "; a text with [ ] in it, such as $(replicas[worker]), is put in quotes inside a list" if found and "$(" in found[0] else ""
    return f"{problem or 'this is not YAML'}{quotes}"


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
        if seen:
            sizes[id(node)] = size = 1 + sum(sizes[id(one)] for one in _children(node))
            if size > LARGEST:
                raise NotYamlError("its references make it too large", node.start_mark.line + 1)
        elif id(node) not in sizes:
            _name_fields(node)
            sizes[id(node)] = 0
            stack.append((node, True))
            stack += [(one, False) for one in _children(node)]
        elif not sizes[id(node)]:
            raise NotYamlError("it refers to itself", node.start_mark.line + 1)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _name_fields(node: yaml.Node) -> None:
    """Make text of the names of an object's fields, each of which is there once."""
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    node.value = [(_as_name(key), value) for key, value in node.value]
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            line = key.start_mark.line + 1
            if key.value in lines:
                raise NotYamlError(f"{key.value} is there twice, first in line {lines[key.value]}", line)
            lines[key.value] = line


def _as_name(key: yaml.Node) -> yaml.Node:
    """The name of a field, which is text: of `y: 5` it is "true", and whoever wrote it should be told of that name."""
    match key.tag if isinstance(key, yaml.ScalarNode) else "":
        case "tag:yaml.org,2002:null":
            raise NotYamlError("a field has no name", key.start_mark.line + 1)
        case "tag:yaml.org,2002:bool":
            name = "true" if _Loader.bool_values.get(key.value.lower()) else "false"
        case "!like-a-number":
            value = _number(key.value)
            name = value if isinstance(value, str) else f"{value:.12g}" if isinstance(value, float) else str(value)
        case _:
            return key
    return yaml.ScalarNode(_TEXT, name, key.start_mark, key.end_mark)


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
            if path.startswith(f"[{key.value}]"):  # as servers name the entries of maps
                yield key.start_mark.line, value, path[len(key.value) + 2 :].removeprefix(".")
                return
            if path == key.value or path.startswith((f"{key.value}.", f"{key.value}[")):
                yield key.start_mark.line, value, path[len(key.value) :].removeprefix(".")
                return
