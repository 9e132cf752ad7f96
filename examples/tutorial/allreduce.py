"""Data-parallel training: every rank has a part of the data, and all have the same weights.

In every step each rank works out the gradient of its own part, a ring of sockets adds the gradients up, and all ranks take the same step.
Rank 0 writes a checkpoint now and then; whoever starts looks for one first.
"""

import os
import socket
import sys

import model
import numpy as np
from peers import reach

STEPS, EVERY = 400, 50
RANK, HOSTS, PORT = int(os.environ["RANK"]), os.environ["HOSTS"].split(), int(os.environ["PORT"])
CHECKPOINT = os.path.join(os.environ["CHECKPOINTS"], "allreduce.npz")


class Ring:
    """All ranks in a circle: each sends to the next one and hears the one before."""

    def __init__(self):
        self.world = len(HOSTS)
        with socket.create_server((os.environ["ADDRESS"], PORT)) as door:
            self.next = reach(HOSTS[(RANK + 1) % self.world], PORT)
            self.previous = door.accept()[0].makefile("rb")

    def sum(self, vector):
        """The sum of all ranks' vectors. Each sends twice the vector, in pieces, however many ranks there are."""
        pieces = np.array_split(vector, self.world)
        for turn in range(self.world - 1):  # add up: in the end each rank has one piece that is complete
            pieces[(RANK - turn - 1) % self.world] += self.pass_on(pieces[(RANK - turn) % self.world])
        for turn in range(self.world - 1):  # hand the complete pieces round
            pieces[(RANK - turn) % self.world] = self.pass_on(pieces[(RANK - turn + 1) % self.world])
        return np.concatenate(pieces)

    def pass_on(self, piece):
        """Send a piece, and get the one that comes: its size goes before it."""
        self.next.sendall(piece.size.to_bytes(4, "big") + piece.tobytes())
        size = int.from_bytes(self.read(4), "big")
        return np.frombuffer(self.read(8 * size))

    def read(self, size):
        """What the rank before has sent."""
        data = self.previous.read(size)
        if len(data) < size:
            raise ConnectionError("the rank before this one has gone")
        return data


def load():
    """Where to begin, and with which weights."""
    if not os.path.exists(CHECKPOINT):
        return 0, model.start()
    with np.load(CHECKPOINT) as found:
        return int(found["step"]), found["weights"]


def save(step, weights):
    """Write a checkpoint: it is there as a whole, or not at all."""
    os.makedirs(os.path.dirname(CHECKPOINT), exist_ok=True)
    with open(f"{CHECKPOINT}.new", "wb") as file:
        np.savez(file, step=step, weights=weights)
    os.replace(f"{CHECKPOINT}.new", CHECKPOINT)


def train():
    """All steps that are left; returns the last loss."""
    begin, weights = load()
    print(f"rank {RANK} of {len(HOSTS)} begins at step {begin}")
    x, y = model.shard(RANK, len(HOSTS))
    ring, loss = Ring(), None
    for step in range(begin + 1, STEPS + 1):
        if RANK == 1 and begin == 0 and os.environ["DIES_AT"] == str(step):
            sys.exit(f"rank 1 dies at step {step}, as it was asked to")
        weights, loss = model.step(weights, ring.sum(model.gradient(weights, x, y)))
        if RANK == 0 and step % EVERY == 0 and step < STEPS:
            print(f"step {step}: the loss is {loss:.8f}")
            save(step, weights)
    return loss


if __name__ == "__main__":
    try:
        result = train()
    except OSError as problem:
        sys.exit(f"rank {RANK} gives up: {problem}")
    if RANK == 0:
        os.remove(CHECKPOINT)  # the next job begins at the beginning
        print(f"trained: the loss is {result:.8f}")
