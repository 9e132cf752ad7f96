"""Commands that take several jobs: a failure with one of them does not keep the others from being handled, as with kubectl."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from genericjob.reconcile.errors import ApiError

from .failures import CommandError, report
from .text import one_line


class Several:
    """The failures of a command so far; each is printed when it happens."""

    def __init__(self) -> None:
        self.code = 0
        """Exit code of the command: the highest of all failures, because a time-out (3) says the least about what will happen."""

    @contextmanager
    def each(self) -> Iterator[None]:
        """Handle one job; what goes wrong with it is printed, and the next one can be handled."""
        try:
            yield
        except CommandError as error:
            report(error)
            self.code = max(self.code, error.code)
        except ApiError as error:
            if not (error.refused or error.conflict):  # the server is away, or has no such kind: the others would fail as well
                raise
            report(error, one_line(str(error)))
            self.code = max(self.code, 1)

    def end(self) -> None:
        """End the command, with an exit code if something failed."""
        if self.code:
            raise typer.Exit(self.code)
