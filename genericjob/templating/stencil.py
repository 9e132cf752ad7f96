"""Bytes with holes: everything that is the same for all ranks, prepared once.

A body is made whole with markers where the ranks will differ, encoded, and cut at the markers. A body for a rank is then one join.

Markers must be texts that cannot occur in what users wrote, because a marker in a user's text would be taken for a hole. So they are drawn
at random after the user's text was stored: nobody can have written what did not exist yet. They never leave the process, since every one
of them is replaced.
"""

from array import array
from collections.abc import Sequence

PER_PIECE = 40
"""Bytes of a text beside its own characters, and of its place in the list."""
FEW = 1_000
"""Pieces that are kept as texts of their own. More of them are kept as one text and cut when it is filled in: 100,000 would take 8 MB."""


class Stencil:
    """A text that is filled in often and differs in few places."""

    def __init__(self, text: bytes, markers: Sequence[bytes]) -> None:
        """Cut the text at the markers; no marker may be a part of another."""
        pieces = _cut(text, markers)
        self._pieces = [piece if isinstance(piece, bytes) else b"" for piece in pieces]
        """Text and holes in turn."""
        self._holes = array("B", (piece for piece in pieces if isinstance(piece, int)))
        """The number of the marker of each hole."""
        self._lengths = array("I")
        """Of the pieces of text, if these are joined."""
        if len(self._pieces) > FEW:
            self._lengths.extend(map(len, self._pieces[::2]))
            self._pieces = [b"".join(self._pieces)]

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory, at most: users decide how many holes there are."""
        arrays = self._holes.itemsize * len(self._holes) + self._lengths.itemsize * len(self._lengths)
        return PER_PIECE * len(self._pieces) + sum(map(len, self._pieces)) + arrays + 8 * PER_PIECE

    def fill(self, *values: bytes) -> bytes:
        """The whole text, with these values in the order of the markers."""
        if self._lengths:
            return self._filled_piecemeal(values)
        pieces = self._pieces.copy()  # A COPY: several threads fill the same stencil
        pieces[1::2] = [values[number] for number in self._holes]
        return b"".join(pieces)

    def _filled_piecemeal(self, values: Sequence[bytes]) -> bytes:
        (text,) = self._pieces
        end = self._lengths[0]
        filled = bytearray(text[:end])
        for hole, length in zip(self._holes, self._lengths[1:], strict=True):
            filled += values[hole]
            filled += text[end : end + length]
            end += length
        return bytes(filled)


def _cut(text: bytes, markers: Sequence[bytes]) -> list[bytes | int]:
    """Text and numbers of markers in turn. Split marker by marker: a pattern would be compiled anew for markers that are new."""
    pieces: list[bytes | int] = [text]
    for number, marker in enumerate(markers):
        finer: list[bytes | int] = []
        for piece in pieces:
            if isinstance(piece, int):
                finer.append(piece)
                continue
            first, *rest = piece.split(marker)
            finer.append(first)
            for part in rest:
                finer += (number, part)
        pieces = finer
    return pieces
