"""Entry point of `genericjob` and `kubectl gj`: whatever goes wrong is told in one sentence."""

import io
import os
import sys
from pathlib import Path
from typing import NoReturn

PLUGIN = "kubectl-gj"
"""The name under which kubectl finds this program."""
NO_DEFINITION = "is its CustomResourceDefinition installed?"
HOW_TO_INSTALL = "kubectl apply -f manifests/crd"
"""How the README installs the kind."""


def main() -> None:
    """Run a command. Exit codes: 1 something went wrong, 2 the command line is, 130 Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # closed, it is None
        sys.stdout.reconfigure(errors="replace")  # what programs print is not to end us where it cannot be written
    try:
        # IMPORTED HERE, because Ctrl-C does not wait until a program has been loaded.
        from genericjob.reconcile.errors import ApiError

        from .app import app
        from .failures import CommandError
        from .interrupts import interruptible
        from .text import one_line

        plugin = Path(sys.argv[0]).name == PLUGIN
        completing = "_KUBECTL_GJ_COMPLETE" if plugin else "_GENERICJOB_COMPLETE"
        if completing in os.environ:
            from typer.completion import completion_init  # type: ignore[attr-defined]

            completion_init()
        try:
            with interruptible():
                app(prog_name="kubectl gj" if plugin else "genericjob", complete_var=completing)
        except CommandError as error:
            _end(error, str(error), error.code)
        except ApiError as error:
            _end(error, one_line(_told(error)))
        except OSError as error:  # a full disk, a directory that cannot be made
            _end(error, _placed(error))
        except Exception as error:
            _end(error, f"this is a bug in genericjob: {one_line(f'{type(error).__name__}: {error}')}; --debug shows where")
    except KeyboardInterrupt:
        sys.exit(130)


def _told(error: Exception) -> str:
    message = str(error)
    return f"{message}; an administrator installs it with: {HOW_TO_INSTALL}" if NO_DEFINITION in message else message


def _placed(error: OSError) -> str:
    why = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {why}" if isinstance(error.filename, str | bytes) else why


def _end(error: Exception, message: str, code: int = 1) -> NoReturn:
    from .failures import report

    report(error, message)
    sys.exit(code)
