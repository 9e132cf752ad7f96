"""Lines of a stream that arrives in pieces.

Users decide how long a line is: the event of an object of 1.4 MB can have 8 MB on the wire, and TLS
delivers it in pieces of 16 KB. So the work is linear in the bytes: only the new piece is searched for
newlines, and an unfinished line is appended to a buffer that grows.
"""

from io import BytesIO


class LineBuffer:
    """Cuts pieces into lines, and keeps the line that has not ended yet."""

    __slots__ = ("_begun", "size")

    def __init__(self) -> None:
        self._begun = BytesIO()  # not a list: a server that sends two bytes at a time would fill memory with its entries
        self.size = 0
        """Bytes of the unfinished line."""

    def ended_by(self, piece: bytes) -> list[bytes]:
        """Return the lines that this piece ends, without their newlines."""
        lines = piece.split(b"\n")
        rest = lines.pop()
        if self.size and lines:
            self._begun.write(lines[0])
            lines[0] = self.take()
        if rest:
            self.size += self._begun.write(rest)
        return lines

    def take(self) -> bytes:
        """Return the unfinished line, and forget it."""
        taken, self._begun, self.size = self._begun.getvalue(), BytesIO(), 0
        return taken
