"""`python -m harness.verdicts FILE`: what is wrong in an audit log, as a table; the exit code is 1 if there is anything."""

import argparse
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import CONTROLLER, judged, read


def main() -> int:
    """Read a log and say what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.verdicts", description="Judge a controller by the audit log of its API server."
    )
    parser.add_argument("file", type=Path, help="the audit log")
    parser.add_argument("--user", default=CONTROLLER, help="the account of the controllers")
    parser.add_argument("--since", type=int, default=0, metavar="BYTES", help="begin there")
    options = parser.parse_args()
    found = read(options.file, since=options.since)
    violations, console = judged(found, user=options.user), Console()
    ours = Counter(f"{entry.verb} {entry.object_ref.resource}" for entry in found.writes if entry.user.username == options.user)
    console.print(
        f"{len(found.writes)} writes, {ours.total()} of {options.user}: {', '.join(f'{n} {what}' for what, n in ours.most_common(6))}"
    )
    table = Table("clause", "what", "requests", title=f"{len(violations)} violations", title_justify="left")
    for each in violations:
        table.add_row(str(each.clause), Text(each.what), Text("\n".join(map(str, each.entries))))
    if violations:
        console.print(table)
    else:
        console.print("no violation of clauses 1 to 5 and 10")
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
