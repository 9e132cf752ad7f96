"""A parameter server: it has the weights, and workers come for them, work out gradients, and bring those back.

A worker that dies is waited for. Whoever comes in its place is given the weights of the present step: the server is the checkpoint.
"""

import os
import socket

import model
import numpy as np

STEPS, EVERY = 400, 50
WORKERS = int(os.environ["WORKERS"])
ANSWER = 8 * (model.WEIGHTS + 1)


class Team:
    """The workers, by rank, as far as they are here."""

    def __init__(self, door):
        self.door, self.lines = door, {}

    def line(self, rank):
        """The line to a worker, once it is here."""
        while rank not in self.lines:
            line = self.door.accept()[0].makefile("rwb")
            number = int(line.readline())
            print(f"worker {number} is here")
            self.lines[number] = line
        return self.lines[rank]

    def send(self, rank, step, weights):
        """Give a worker something to do."""
        line = self.line(rank)
        try:
            line.write(b"step %d\n" % step + weights.tobytes())
            line.flush()
        except OSError:
            pass  # it has gone; `receive` will see

    def receive(self, rank, step, weights):
        """What a worker has worked out: the one that was asked, or the one that came in its place."""
        while True:
            try:
                data = self.line(rank).read(ANSWER)
            except OSError:
                data = b""
            if len(data) == ANSWER:
                return np.frombuffer(data)
            print(f"worker {rank} has gone in step {step}: waiting for another one")
            del self.lines[rank]
            self.send(rank, step, weights)

    def dismiss(self):
        """Tell everybody that it is over."""
        for line in self.lines.values():
            line.write(b"done\n")
            line.close()


def serve(door):
    """All steps; returns the last loss."""
    team, weights, loss = Team(door), model.start(), None
    for step in range(1, STEPS + 1):
        for rank in range(WORKERS):
            team.send(rank, step, weights)
        total = sum(team.receive(rank, step, weights) for rank in range(WORKERS))  # in this order: the same sum every time
        weights, loss = model.step(weights, total)
        if step % EVERY == 0 and step < STEPS:
            print(f"step {step}: the loss is {loss:.8f}")
    team.dismiss()
    return loss


if __name__ == "__main__":
    with socket.create_server((os.environ["ADDRESS"], int(os.environ["PORT"]))) as found:
        print(f"trained: the loss is {serve(found):.8f}")
