"""Pytest processes that work off packs, some at a time."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from flaky import FlakyError
from flaky.packs import Case, Pack
from flaky.record import Record, append, failure

LONGEST_TEST_S = 1_200.0
"""Seconds after which a test hangs in a way that pytest's own limit does not end."""
LEAVING_S = 60.0
"""Seconds for an interrupted tester to end what its tests have started."""
TAIL_CHARS = 20_000


def pytest_command(*words: str) -> list[str]:
    """The command line of a pytest process with the plugin."""
    return [sys.executable, "-m", "pytest", "-p", "flaky.plugin", "-p", "no:cacheprovider", *words]


def environment() -> dict[str, str]:
    """The environment of pytest processes: the plugin can be imported there."""
    here = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))}


def collected(root: Path, directory: Path) -> list[Case]:
    """All tests of the suite."""
    listing = directory / "tests.json"
    listing.unlink(missing_ok=True)
    done = subprocess.run(
        pytest_command("--collect-only", "-q", "--flaky-list", str(listing)), cwd=root, env=environment(), capture_output=True, text=True
    )
    if done.returncode or not listing.exists():
        raise FlakyError(f"the tests cannot be collected:\n{(done.stdout + done.stderr)[-TAIL_CHARS:]}")
    return [Case(each["test"], each["lane"], each["marked"]) for each in json.loads(listing.read_text())]


class Tester:
    """One pytest process with one pack."""

    def __init__(self, number: int, pack: Pack, record: Record, root: Path) -> None:
        self.pack, self._record, self._began = pack, record, time.monotonic()
        base = record.logs / f"{number:03}"
        plan, self._at, self.log = base.with_suffix(".json"), base.with_suffix(".at"), base.with_suffix(".log")
        plan.write_text(json.dumps(pack.plan))
        self._at.write_text("")
        files = sorted({name.partition("::")[0] for name in pack.plan})
        options = ["--flaky-plan", plan, "--flaky-record", record.directory, "--flaky-at", self._at, "-q", "--tb=short", "-p", "no:xdist"]
        with self.log.open("wb") as log:
            # A SESSION OF ITS OWN: Ctrl-C reaches this program alone, which ends its testers.
            self._process = subprocess.Popen(
                pytest_command(*map(str, options), *files),
                cwd=root,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def at(self) -> str:
        """The test that runs, if one does."""
        with suppress(OSError):
            return self._at.read_text()
        return ""

    def ended(self) -> bool:
        """Whether the process has ended; one that hangs is killed."""
        if self._process.poll() is None and time.time() - self._at.stat().st_mtime > LONGEST_TEST_S:
            self._kill()
        return self._process.poll() is not None

    def conclude(self) -> str:
        """Charge an unexpected end of the process to the test that ran; returns what went wrong if there is none to charge."""
        if test := self.at:
            text = f"the process ended with {self._process.returncode} while this test ran; its log ends with:\n\n{self.tail()}"
            failed = failure(self._record.failures, test, text)
            append(self._record.file, {"test": test, "seconds": round(time.monotonic() - self._began, 3), "failed": failed})
            self._at.write_text("")
            return ""
        return "" if self._process.returncode in (0, 1) else f"pytest ended with {self._process.returncode}:\n{self.tail()}"

    def tail(self) -> str:
        """The end of what the process printed."""
        return self.log.read_text(errors="replace")[-TAIL_CHARS:]

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def leave(self, deadline: float) -> None:
        """Wait for its end, and kill it when it is late."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def testing(packs: Sequence[Pack], record: Record, root: Path, *, at_a_time: int) -> Iterator[Iterator[list[Tester]]]:
    """Work off packs; yields those at work again and again, until none is."""
    working: list[Tester] = []
    try:
        yield _work(list(packs), working, record, root, at_a_time)
    finally:
        for tester in working:
            tester.interrupt()
        deadline = time.monotonic() + LEAVING_S
        for tester in working:
            tester.leave(deadline)


def _work(packs: list[Pack], working: list[Tester], record: Record, root: Path, at_a_time: int) -> Iterator[list[Tester]]:
    number = 0
    while packs or working:
        while packs and len(working) < at_a_time:
            number += 1
            working.append(Tester(number, packs.pop(0), record, root))
        time.sleep(0.5)
        record.update()
        yield working
        for tester in [each for each in working if each.ended()]:
            working.remove(tester)
            if problem := tester.conclude():
                raise FlakyError(f"{tester.pack.name}: {problem}")
    record.update()
