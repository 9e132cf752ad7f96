"""A worker of a parameter server: it knows its part of the data, and nothing else."""

import os
import sys

import model
import numpy as np
from peers import reach

RANK, WORKERS = int(os.environ["RANK"]), int(os.environ["WORKERS"])


def work(line):
    """Work out gradients until the server has had enough."""
    x, y = model.shard(RANK, WORKERS)
    line.write(b"%d\n" % RANK)
    line.flush()
    while (order := line.readline()) != b"done\n":
        if not order:
            raise ConnectionError("the server has gone")
        if RANK == 1 and os.environ["ATTEMPT"] == "0" and order == b"step %s\n" % os.environ["DIES_AT"].encode():
            sys.exit(f"worker 1 dies at {order.decode().strip()}, as it was asked to")
        weights = np.frombuffer(line.read(8 * model.WEIGHTS))
        line.write(model.gradient(weights, x, y).tobytes())
        line.flush()


if __name__ == "__main__":
    try:
        with reach(os.environ["SERVER"], int(os.environ["PORT"])) as server:
            work(server.makefile("rwb"))
    except OSError as problem:
        sys.exit(f"worker {RANK} gives up: {problem}")
