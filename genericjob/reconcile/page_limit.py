"""How many objects to ask for in the next page of a list.

The server counts objects, memory counts bytes, and users decide how large an object is: 500 pods are 3 MB of JSON, 500 objects of the
largest size that a server stores are 700 MB. So the limit of each page follows the weight of the page before it. A list begins with a
moderate page and soon asks for as many objects as it may, if these are of the usual size; large objects come a few at a time.

A page that turns out too heavy all the same is given up while it is read (`http.py`), and asked for again with a smaller limit.
"""

FIRST, MOST = 100, 500
"""Objects in the first page of a list, and in any."""

WANTED_BYTES = 8 * 2**20
"""JSON of one page. 500 objects of 16 KiB."""

TOO_HEAVY_BYTES = 16 * 2**20
"""JSON of a page that is not read to its end: memory has to hold it twice, for each resource that is listed at the same time."""

LARGEST_OBJECT_BYTES = 64 * 2**20
"""JSON of one object, as a page of its own or as an event. No API server sends so much: etcd stores 1.5 MiB of an object, a request has
at most 3 MiB, and JSON takes up to six bytes for one of them (`<` is `\\u003c`) and seldom more. So who sends more does not end."""

STEP = 5
"""By which factor the limit grows at most from one page to the next, and shrinks after a page that was too heavy."""


class PageLimit:
    """The limit of the next page of one list."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.next = min(FIRST, most)

    def saw(self, objects: int, weight: int) -> None:
        """Take note of a page with so many objects and bytes; a weight of 0 is not known, and takes no part in the choice."""
        fitting = max(1, WANTED_BYTES * max(1, objects) // weight) if weight else self._most
        self.next = min(self._most, self.next * STEP, fitting)


def smaller(limit: int) -> int:
    """Return the limit to try after a page that was too heavy."""
    return max(1, limit // STEP)
