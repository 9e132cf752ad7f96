"""JSONPath templates as kubectl reads them: `{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}`.

Text is printed as it stands. In braces stand a path, whose results are printed with spaces between them, a text in quotes, `range PATH` or
`end`. A path that leads nowhere has no results.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

Values = Iterable[Any]
Step = Callable[[Values, Any], Values]
"""What a step of a path makes of values; the second is the root of the object."""
Part = Callable[[Any, Any], str]
"""What a part of a template prints of a value."""

_COMPARISON = re.compile(r"==|!=|<=|>=|<|>")
_NAME = re.compile(r"\.((?:\\.|[^\s.\[\](){}\\*])+)")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class TemplateError(Exception):
    """A template that cannot be read; says which part of it."""


def template(text: str) -> Callable[[Any], str]:
    """Return what prints a value as a template says."""
    pieces = list(_pieces(text))
    parts = _parts(pieces, inside=False)
    if pieces:
        raise TemplateError("there is an {end} without a {range}")
    return lambda value: "".join(part(value, value) for part in parts)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield texts, and what stands in braces."""
    at = 0
    while (begin := text.find("{", at)) >= 0:
        if begin > at:
            yield "text", text[at:begin]
        at = _closing(text, begin, "}") + 1
        yield "braces", text[begin + 1 : at - 1].strip()
    if text[at:]:
        yield "text", text[at:]


def _closing(text: str, begin: int, wanted: str) -> int:
    """Return where a bracket is closed, which does not happen in quotes."""
    opened, at, depth = text[begin], begin, 0
    while at < len(text):
        if quoted := _QUOTED.match(text, at):
            at = quoted.end()
            continue
        depth += (text[at] == opened) - (text[at] == wanted)
        if not depth:
            return at
        at += 1
    raise TemplateError(f"{text[begin:]} is not closed by {wanted}")


def _parts(pieces: list[tuple[str, str]], *, inside: bool) -> list[Part]:
    """Take the parts up to the end of a range, or of the template, from pieces."""
    found: list[Part] = []
    while pieces:
        kind, text = pieces.pop(0)
        if (kind, text) == ("braces", "end"):
            if not inside:
                pieces.append((kind, text))
            return found if inside else []
        found.append(_part(kind, text, pieces))
    if inside:
        raise TemplateError("a {range} has no {end}")
    return found


def _part(kind: str, text: str, pieces: list[tuple[str, str]]) -> Part:
    if kind == "text" or _QUOTED.fullmatch(text):
        plain = text if kind == "text" else _unquoted(text)
        return lambda value, root: plain
    word, _, rest = text.partition(" ")
    if word == "range":
        path, inner = _path(rest.strip()), _parts(pieces, inside=True)
        return lambda value, root: "".join(part(each, root) for each in path([value], root) for part in inner)
    path = _path(text)
    return lambda value, root: " ".join(map(_printed, path([value], root)))


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _printed(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


# ------------------------------------------------------------------------------------------------ paths


def _path(text: str) -> Step:
    """Return what a path leads to, from the value where it stands or, after `$`, from the root."""
    from_root, steps, at = text.startswith("$"), [], int(text[:1] in ("$", "@"))
    while at < len(text):
        step, at = _step(text, at)
        steps.append(step)
    if not text:
        raise TemplateError("there are braces with nothing in them")

    def walk(values: Values, root: Any) -> Values:
        found: Values = [root] if from_root else values
        for step in steps:
            found = step(found, root)
        return list(found)

    return walk


def _step(text: str, at: int) -> tuple[Step, int]:
    if text.startswith("..", at):
        return _descend, at + 1 if text[at + 2 : at + 3] != "[" else at + 2
    if text.startswith(".*", at):
        return _every, at + 2
    if text[at] == "." and at + 1 in (len(text), text.find("[", at)):  # `{.}` and `{.[0]}`
        return lambda values, root: values, at + 1
    if text[at] == "[":
        end = _closing(text, at, "]")
        return _bracket(text[at + 1 : end].strip()), end + 1
    if name := _NAME.match(text, at):
        return _members([re.sub(r"\\(.)", r"\1", name[1])]), name.end()
    raise TemplateError(f"{text!r} is no path: {text[at:]!r} cannot stand there, a path looks like .status.phase")


def _bracket(text: str) -> Step:
    if text == "*":
        return _every
    if text.startswith("?"):
        return _filter(text[1:].strip())
    if quoted := _QUOTED.findall(text):
        if _QUOTED.sub("", text).strip(", "):
            raise TemplateError(f"[{text}] is no list of names in quotes")
        return _members([_unquoted(each) for each in quoted])
    try:
        places = [_place(each) for each in text.split(",")]
    except ValueError:
        raise TemplateError(f"[{text}] is none of a number, a range, names in quotes, * and ?(…)") from None
    return lambda values, root: [each for place in places for value in values if isinstance(value, list) for each in value[place]]


def _place(text: str) -> slice:
    """Return the part of a list that a number or a range means."""
    if ":" in text:
        first, last, *step = (int(each) if each.strip() else None for each in text.split(":"))
        return slice(first, last, *step)
    number = int(text)
    return slice(number, number + 1 or None)


def _members(names: Sequence[str]) -> Step:
    return lambda values, root: [value[name] for name in names for value in values if isinstance(value, dict) and name in value]


def _every(values: Values, root: Any) -> Values:
    return [each for value in values for each in _below(value)]


def _below(value: Any) -> Values:
    if isinstance(value, dict):
        return [value[name] for name in sorted(value)]
    return value if isinstance(value, list) else ()


def _descend(values: Values, root: Any) -> Values:
    found: list[Any] = []
    for value in values:
        found.append(value)
        found += _descend(_below(value), root)
    return found


def _filter(text: str) -> Step:
    """Return what keeps the elements of a list for which a condition holds: `(@.type=="Running")`."""
    if not (text.startswith("(") and text.endswith(")")):
        raise TemplateError(f'[?{text}] is no filter: it looks like [?(@.type=="Running")]')
    inner = text[1:-1].strip()
    masked = _QUOTED.sub(lambda found: "_" * len(found[0]), inner)
    sign = _COMPARISON.search(masked)
    if sign is None:
        path = _path(inner)
        return lambda values, root: [each for each in _every(values, root) if list(path([each], root))]
    left, right = _operand(inner[: sign.start()].strip()), _operand(inner[sign.end() :].strip())
    compare = _COMPARE[sign[0]]

    def holds(each: Any, root: Any) -> bool:
        try:
            return any(compare(one, other) for one in left([each], root) for other in right([each], root))
        except TypeError:  # a text is neither less nor more than a number
            return False

    return lambda values, root: [each for each in _every(values, root) if holds(each, root)]


def _operand(text: str) -> Step:
    if text[:1] in ("@", "$"):
        return _path(text)
    try:
        value = _unquoted(text) if _QUOTED.fullmatch(text) else msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise TemplateError(f"{text!r} is neither a path, a number nor a text in quotes") from None
    return lambda values, root: [value]
