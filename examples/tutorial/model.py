"""A small network that learns a curve, and its gradient by hand."""

import numpy as np

HIDDEN, POINTS, RATE = 16, 240, 0.2
WEIGHTS = 3 * HIDDEN + 1


def shard(rank, world):
    """The part of the data that is a rank's own: every world-th point of the curve."""
    x = np.linspace(-1, 1, POINTS)[rank::world, None]
    return x, np.sin(4 * x)


def start():
    """The weights to begin with, all in one vector: the same ones everywhere."""
    return np.random.default_rng(7).normal(0, 1, WEIGHTS)


def gradient(weights, x, y):
    """Sums over some points: the gradient, and behind it the squared error."""
    into, bias, out, offset = np.split(weights, [HIDDEN, 2 * HIDDEN, 3 * HIDDEN])
    hidden = np.tanh(x * into + bias)
    error = hidden @ out[:, None] + offset - y
    back = error * out * (1 - hidden**2)
    return np.concatenate([(back * x).sum(0), back.sum(0), (error * hidden).sum(0), error.sum(0), [(error**2).sum()]])


def step(weights, total):
    """Better weights, given the sum of what `gradient` says of all points; and the loss of the old ones."""
    return weights - RATE * total[:-1] / POINTS, total[-1] / POINTS
