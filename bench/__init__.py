"""Reproducible measurements. Each program starts a control plane, measures ours beside what it is compared with, and writes a page."""
