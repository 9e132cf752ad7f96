"""Repeat tests beside busy processes, to find those that fail now and then.

Tests about signals, terminals or processes (the marker `processes`) run 50 times and the twenty
slowest of all tests 10 times, while four other processes keep the processors busy. CONTRIBUTING.md
says how tests are chosen, `python -m flaky --help` has the options.

Every result is written down as soon as it is known (`record`), so an interrupted run continues
where it was. `packs` says what is left to run, `testers` run it in pytest processes, and `plugin`
is loaded by those.
"""


class FlakyError(Exception):
    """Something that the user can read and act on: its text is the whole message."""
