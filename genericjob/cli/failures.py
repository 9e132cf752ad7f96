"""What a command tells its user when it cannot do what was asked: one sentence, and an exit code."""

from contextlib import suppress

from .text import say

BAD_INPUT = 2
TIMED_OUT = 3


class CommandError(Exception):
    """Something that the user can understand and mend."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def misuse(error: Exception) -> CommandError:
    """What is wrong with the input, when that may be several things: each line says who speaks."""
    return CommandError("\ngenericjob: ".join(str(error).splitlines()), BAD_INPUT)


class Debugging:
    """Whether the user wants to see what is behind a failure: the global option --debug."""

    on = False


def report(error: Exception, message: str = "") -> None:
    """Print a failure, with the place in the program under --debug."""
    if Debugging.on:
        import traceback

        say("".join(traceback.format_exception(error)).rstrip("\n"), err=True)
    with suppress(OSError):  # a caller that does not read learns it from the exit code
        say(f"genericjob: {message or error}", err=True)
