"""Entry point of `genericjob` and `kubectl gj`: whatever goes wrong is told in one sentence."""

import sys


def main() -> None:
    """Run a command. Exit codes: 1 something went wrong, 2 the command line is, 130 Ctrl-C."""
    try:
        # IMPORTED HERE, because Ctrl-C does not wait until a program has been loaded.
        from genericjob.reconcile.errors import ApiError

        from .app import app

        try:
            app()
        except ApiError as error:
            sys.exit(f"genericjob: {error.message}")
        except OSError as error:  # a full disk, a closed pipe
            sys.exit(f"genericjob: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)
