"""Why a file that is there cannot be started, and what to do about it: the kernel has one number for many reasons."""

import errno
import os
import shlex

FIRST_LINE = 256
"""What the kernel reads of a file."""
ELF = b"\x7fELF"


def obstacle(path: str, directory: str = "", error: int = 0) -> str:
    """Return what keeps a file from being started in a directory, as far as it shows; `error` is the kernel's, if it was asked."""
    if os.path.isdir(path):
        return "it is a directory: name a program in it"
    if not os.access(path, os.X_OK):
        return f"it is not executable: `chmod +x {shlex.quote(path)}`, or name its interpreter before it"
    try:
        with open(path, "rb") as file:
            first = file.readline(FIRST_LINE)
    except OSError:
        return ""
    if first.startswith(b"#!"):
        return _interpreter(path, first, directory)
    if error == errno.ENOEXEC and not first.startswith(ELF):
        return "its first line names no interpreter: let it be #!/bin/sh, for example, or name the interpreter before it"
    return "it was made for another machine or system" if error in (errno.ENOEXEC, errno.ENOENT) else ""


def _interpreter(path: str, first: bytes, directory: str) -> str:
    words = first[2:].removesuffix(b"\n").replace(b"\t", b" ").split(b" ")
    name = next((word for word in words if word), b"")
    if not name.strip():
        return "its first line names no interpreter behind #!"
    if os.path.exists(os.path.join(os.fsencode(directory), name)):
        return ""
    shown = os.fsdecode(name.removesuffix(b"\r"))
    if not name.endswith(b"\r"):
        return f"there is no {shown!r} on this machine, the interpreter that its first line names"
    how = f"`sed -i 's/\\r$//' {shlex.quote(path)}` removes it"
    return f"behind its interpreter {shown!r} the first line ends with a carriage return, as on Windows: {how}"
