"""Lists: which moment they are about, and where a page begins and ends.

A continue token names the moment and the last key, nothing else: it can be used twice, by anybody, until history forgets the moment.
"""

import base64
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from genericjob.reconcile.api import Page
from genericjob.reconcile.objects import Unreadable
from genericjob.reconcile.resources import Key
from genericjob.reconcile.structs import decoder

from . import refusals
from .kinds import Kind
from .selectors import Selector
from .store import Version
from .views import presented

T = TypeVar("T")


class Place(msgspec.Struct, frozen=True):
    """A moment, and the key after which a list goes on."""

    version: int
    after: str = ""

    @property
    def token(self) -> str:
        """The place as a continue token."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def place(continue_token: str, resource_version: str, limit: int, *, newest: int, cached: int) -> Place:
    """What a list asks for: the newest state, what a cache has, something not older than, or with a limit exactly, a version."""
    if continue_token:
        if resource_version not in ("", "0"):
            raise refusals.bad_request("specifying resource version is not allowed when using continue")
        return _from_token(continue_token)
    if not resource_version:
        return Place(newest)
    if not is_version(resource_version):
        raise refusals.bad_request(f'invalid resource version: resourceVersion: Invalid value: "{resource_version}"')
    asked = int(resource_version)
    if asked > newest:
        raise refusals.too_large_version(asked, newest)
    return Place(asked if asked and limit > 0 else max(asked, cached))


def page(
    found: Sequence[Version],
    kind: Kind,
    here: Place,
    *,
    selector: Selector | None,
    limit: int,
    read: Callable[[bytes], tuple[T | None, Unreadable | None]],
) -> Page[T]:
    """One page of a list that is sorted by key."""
    start = bisect_right(found, here.after, key=lambda one: path(one.key)) if here.after else 0
    items: list[T] = []
    unreadable: list[Unreadable] = []
    size = 0
    for index in range(start, len(found)):
        data = presented(found[index], kind)
        if selector is not None and not selector(data):
            continue
        one, lost = read(_as_item(data, kind))
        items += [] if one is None else [one]
        unreadable += [] if lost is None else [lost]
        size += 1
        if size == limit and index + 1 < len(found):
            token = Place(here.version, path(found[index].key)).token
            # What a selector would leave of the rest is not known.
            return Page(items, str(here.version), token, len(found) - index - 1 if selector is None else None, unreadable)
    return Page(items, str(here.version), unreadable=unreadable)


def _as_item(data: bytes, kind: Kind) -> bytes:
    """IN A LIST, OBJECTS OF BUILT-IN KINDS DO NOT SAY WHAT THEY ARE: the list does."""
    return data if kind.schema is not None else b"{" + data[data.index(b'"metadata"') :]


def path(key: Key) -> str:
    """A key as the store sorts it: "a-b/x" comes before "a/x"."""
    return f"{key.namespace}/{key.name}"


def is_version(text: str) -> bool:
    """Whether it is a number, as resourceVersions are."""
    return text.isascii() and text.isdigit()


_place = decoder(Place)


def _from_token(token: str) -> Place:
    try:
        return _place.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, msgspec.MsgspecError):
        raise refusals.bad_request("invalid continue token: continue key is not valid") from None
