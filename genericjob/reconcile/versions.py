"""Which of two resourceVersions came first.

Versions of one resource can be compared: decimal numbers without leading zeros, so by length and then by text. A version that does not look
like that says nothing about order, and nobody may be made to wait because of it.
"""


def newer_or_same(have: str, want: str) -> bool:
    """Whether what we have is at least as new as what is wanted; nothing at all is never enough, and what cannot be compared always is."""
    if not want:
        return True
    return bool(have) and (have == want or not older_or_same(have, want))


def older_or_same(one: str, other: str) -> bool:
    """Whether one version certainly is not newer than the other."""
    # Asked twice for every event, of which nearly all are newer.
    if len(one) > len(other) or (len(one) == len(other) and one > other):
        return False
    return _comparable(one) and _comparable(other)


def _comparable(version: str) -> bool:
    return version.isdigit() and version.isascii() and version[0] != "0"
