"""What a program says about its own end.

In a container that is a file, /dev/termination-log. A machine has one of those at most, so a program finds the name of its file in the
variable GENERICJOB_TERMINATION_LOG. With the policy FallbackToLogsOnError a program that fails and leaves nothing there is quoted.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .scratch import Scratch

VARIABLE = "GENERICJOB_TERMINATION_LOG"
LONGEST = 4096
LINES, BYTES = 80, 2048
"""Of what was printed last, as kubelets quote it."""


class Messages:
    """The messages of one pod's containers."""

    def __init__(self, pod: str, scratch: Scratch) -> None:
        self._pod, self._scratch = pod, scratch
        self._printed: dict[str, bytes] = {}

    def variables(self, container: str) -> dict[str, str]:
        """Where a program leaves its message."""
        return {VARIABLE: self._path(container)}

    def overheard(self, container: Mapping[str, Any], told: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Who is to hear what a container prints."""
        if container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return told
        name = str(container.get("name"))

        def tell(data: bytes) -> None:
            self._printed[name] = (self._printed.get(name, b"") + data)[-BYTES:]
            told(data)

        return tell

    def take(self, container: str, code: int) -> str:
        """The message of a container that has ended with this exit code."""
        try:
            with open(self._path(container), "rb") as file:
                message = file.read(LONGEST)
        except OSError:  # most programs leave none
            message = b""
        if not message and code:
            message = b"".join(self._printed.get(container, b"").splitlines(keepends=True)[-LINES:])
        return message.decode(errors="replace")

    def _path(self, container: str) -> str:
        return f"{self._scratch.path}/{self._pod}.{container}.message"
