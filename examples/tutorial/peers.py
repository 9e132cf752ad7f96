"""How ranks find each other. A name resolves, and a door opens, only when its rank has started: so it is tried for a while."""

import socket
import time


def reach(host, port, patience=60):
    """A connection to a rank."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
