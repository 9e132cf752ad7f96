"""Deterministic simulation: the real threads of the framework, one at a time, in an order that a seed decides."""
