"""Where a run is shown, for as long as anybody takes it.

A pipe whose reader has gone, a disk that is full: what is shown does not matter any more, but the programs of the run do. So nothing is
raised in the middle of telling something; the loss is remembered, and whoever runs the programs asks for it.
"""

import os
import sys
from contextlib import suppress
from typing import IO


class Outlet:
    """A file for text, by default standard output; there is none at all when that was closed before the program began."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self.file: IO[str] | None = file or sys.stdout
        self.lost: OSError | None = None
        """Why it takes nothing any more."""

    def write(self, text: str) -> None:
        """Write a text, or drop it."""
        if self.file is not None and self.lost is None:
            try:
                self.file.write(text)
            except OSError as error:
                self._lose(error)

    def flush(self) -> None:
        """Let it be read."""
        if self.file is not None and self.lost is None:
            try:
                self.file.flush()
            except OSError as error:
                self._lose(error)

    def fileno(self) -> int:
        """The file's number; raises OSError if it has none."""
        if self.file is None:
            raise OSError("there is no file")
        return self.file.fileno()

    def _lose(self, error: OSError) -> None:
        self.lost = error
        with suppress(OSError):
            # WHAT IS STILL BUFFERED GOES NOWHERE: the interpreter writes it at its end, and would exit with a code of its own.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno(), inheritable=False)
            os.close(nowhere)
