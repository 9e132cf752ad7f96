"""Impersonation: requests that the server executes with the rights of another user.

A kubeconfig (`as`, `as-uid`, `as-groups`, `as-user-extra`) or the options `--as`, `--as-uid` and
`--as-group` name that user. The names are sent in headers of every request, encoded as client-go
encodes them. A configuration that cannot be sent exactly as it was written is refused: sending less
of it would act with rights that the user had put aside.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from .errors import unusable

Header = tuple[str, str]

_PLAIN = "!#$&'*+-.^_`|~"
"""What the name of a header may contain beside letters and digits, except the percent sign, which begins an encoded byte."""
_UNSENDABLE = ("Cc", "Cs")
"""Unicode categories: control characters, which would end the header, and surrogates, which have no encoding."""


@dataclass(frozen=True)
class Impersonation:
    """The user as whom requests are executed; the default is the authenticated user."""

    user: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def overridden_by(self, options: "Impersonation") -> "Impersonation":
        """Return this with every part replaced that the options name: kubectl merges its options so."""
        return Impersonation(
            options.user or self.user, options.uid or self.uid, options.groups or self.groups, {**self.extra, **options.extra}
        )

    def headers(self, source: str) -> tuple[Header, ...]:
        """Return the headers that ask for it. `source` says where it was configured, for messages."""
        if not self.user and (self.uid or self.groups or self.extra):
            raise unusable(f"{source} impersonates a uid, groups or extra fields without a user: name one (as, or --as)")
        return tuple(self._headers(source)) if self.user else ()

    def _headers(self, source: str) -> Iterator[Header]:
        yield "Impersonate-User", _sendable(self.user, "user", source)
        if self.uid:
            yield "Impersonate-Uid", _sendable(self.uid, "uid", source)
        for group in self.groups:
            yield "Impersonate-Group", _sendable(group, "group", source)
        for key, values in self.extra.items():
            name = f"Impersonate-Extra-{_encoded(key, source)}"
            yield from ((name, _sendable(value, "extra value", source)) for value in values)


def _encoded(key: str, source: str) -> str:
    """Return a key of the extra fields as a part of a header's name. The server reads these in lower case."""
    try:
        return quote(key, safe=_PLAIN).lower()
    except UnicodeEncodeError:
        raise unusable(f"an extra key to impersonate in {source} is not text") from None


def _sendable(text: str, what: str, source: str) -> str:
    """Return a text that can be sent in a header. Spaces around it would be cut, and name another user."""
    if text != text.strip(" ") or any(unicodedata.category(each) in _UNSENDABLE for each in text):
        raise unusable(f"the {what} to impersonate in {source} has characters that no HTTP header can hold")
    return text
