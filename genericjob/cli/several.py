"""Commands that take several jobs: a failure with one of them does not keep the others from being handled, as with kubectl."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from genericjob.reconcile.errors import ApiError

from .failures import BAD_INPUT, CommandError, report
from .jobs import Job, everything, find
from .options import Target
from .text import one_line, say


def check_choice(names: Sequence[str] | None, selector: str, what: str) -> None:
    """Raise CommandError unless jobs are named or chosen by labels, one of both."""
    if bool(names) == bool(selector):
        raise CommandError(f"name jobs to {what}, or choose them with --selector: one of the two", BAD_INPUT)


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

    def jobs(self, where: Target, names: Sequence[str] | None, selector: str) -> Iterator[Job]:
        """Yield the jobs of these names, or with these labels; the first of them before the next is looked for."""
        for name in names or ():
            found = []
            with self.each():
                found.append(find(where, name))
            yield from found
        if selector:
            jobs, _ = everything(where, labels=selector)
            if not jobs:
                say(f"There are no jobs with these labels in namespace {where.namespace} ({where.where}).", err=True)
            yield from jobs

    def end(self) -> None:
        """End the command, with an exit code if something failed."""
        if self.code:
            raise typer.Exit(self.code)
