"""`Warning` headers of API servers: `299 - "text"` (RFC 7234, section 5.5), with the text in UTF-8.

Python represents the bytes of headers as latin-1 text: `written` returns such text and `read` takes it, so that no byte is lost. What is
sent is what kube-apiserver sends: a text with control characters is left out, a text is sent once, and all texts together have a limit,
beyond which each of them is cut. Without the limit an object with thousands of unknown fields would be stored, and the answer would have
a head that no client reads.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

MAX_TOTAL_CHARS = 4_096
"""Of all texts of one answer; texts are cut when there are more."""
MAX_CUT_CHARS = 256
"""Of one text, when texts are cut."""

_WARNING = re.compile(r'\s*\d{3} \S+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,|$)')
_PAIR = re.compile(r"\\(.)")


def sent(texts: Iterable[str]) -> list[str]:
    """Return the texts that a server sends of these, as far as it sends them."""
    fit = [text for text in dict.fromkeys(texts) if text and not any(unicodedata.category(each) == "Cc" for each in text)]
    return fit if sum(map(len, fit)) <= MAX_TOTAL_CHARS else list(_cut(fit))


def written(texts: Iterable[str]) -> list[str]:
    """Return the values of the headers for these texts."""
    return [_quoted(text).encode("utf-8", "replace").decode("latin-1") for text in sent(texts)]


def _cut(texts: Iterable[str]) -> Iterator[str]:
    total = 0
    for text in texts:
        if total >= MAX_TOTAL_CHARS:
            return
        yield text[:MAX_CUT_CHARS]
        total += min(len(text), MAX_CUT_CHARS)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def read(value: str) -> list[str]:
    """Return the texts of a header, which may hold several warnings, or of several headers joined by line breaks."""
    return [text for line in value.split("\n") for text in _texts(line.encode("latin-1", "replace").decode("utf-8", "replace"))]


def _texts(line: str) -> Iterator[str]:
    at = 0
    while at < len(line) and (found := _WARNING.match(line, at)):  # what is no warning ends the header, as for kubectl
        yield _PAIR.sub(r"\1", found[1])
        at = found.end()
