"""Structs are read by many threads, of which nobody knows who is first."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from genericjob.reconcile import structs

ROOT = Path(__file__).parents[2] / "genericjob"

MANY_AT_ONCE = """
import sys, threading
import msgspec
from genericjob.reconcile.structs import converter, decoder

sys.setswitchinterval(1e-6)


def fresh():
    inner = msgspec.defstruct("Inner", [("name", str, ""), ("number", int | None, None)])
    parts = [("one", inner | None, None), ("many", list[inner] | None, None), ("named", dict[str, inner] | None, None)]
    return msgspec.defstruct("Outer", parts)


def read(wanted, barrier):
    barrier.wait()
    WAY(wanted)


for _ in range(ROUNDS):
    wanted, barrier = fresh(), threading.Barrier(3)
    threads = [threading.Thread(target=read, args=(wanted, barrier)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
FOUND = {"one": {"name": "a"}, "many": [{"number": 1}], "named": {"b": {"name": "c"}}}


def crashes(way, rounds):
    script = MANY_AT_ONCE.replace("WAY(wanted)", way).replace("ROUNDS", str(rounds))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=200).returncode


@pytest.mark.parametrize("way", [f"converter(wanted)({FOUND})", 'decoder(wanted).decode(b\'{"many": [{"name": "d"}]}\')'])
def test_threads_that_are_first_at_the_same_time_read_it(way):
    assert crashes(way, 300) == 0


def test_nobody_reads_structs_in_another_way():
    """In the script above `msgspec.convert(…, wanted)` crashes Python. A decoder of no type in particular learns nothing."""
    another = re.compile(r"msgspec\.convert\(|msgspec\.json\.Decoder\((?!float_hook)|msgspec\.json\.decode\([^\n]*type=")
    here = Path(structs.__file__)
    assert [str(file) for file in ROOT.rglob("*.py") if file != here and another.search(file.read_text())] == []
