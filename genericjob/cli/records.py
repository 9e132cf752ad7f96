"""What `genericjob run -o json` prints: one JSON object on a line for everything that happens.

    {"event":"begin","time":…,"run":"hello","jobs":["hello"],"logs":"/…"}
    {"event":"line","time":…,"job":"hello","type":"worker","rank":0,"container":"main","text":"…"}
    {"event":"line",…,"text":"…","continued":true}           it goes on with the line before it, which was too long for one record
    {"event":"line",…,"text":"caf\ufffd","bytes":"Y2Fm6Q=="}  some of it is not UTF-8; these are the exact bytes, in base64
    {"event":"rank","time":…,"job":"hello","type":"worker","rank":0,"phase":"Failed","exitCode":3,"restarts":1,"message":"…"}
    {"event":"job","time":…,"job":"hello","phase":"Running","message":"…"}
    {"event":"notice","time":…,"message":"…"}
    {"event":"warning","time":…,"about":"hello","message":"…"}
    {"event":"end","time":…,"exitCode":0,"jobs":[{"name":"hello","namespace":"default","phase":"Succeeded","message":"…","status":{…}}],"logs":"/…"}

`message` of a rank or job says in words what happened. The status at the end is that of the GenericJob. Fields may be added, none is taken
away.
"""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from genericjob.reconcile.resources import Key

from .outlet import Outlet
from .printed import LineCutter
from .views import JobView, RankView, RunView


class Records:
    """Writes events for machines."""

    def __init__(self, file: IO[str] | None = None, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._outlet, self._now = Outlet(file), now
        self._cutter: LineCutter[tuple[Key, str]] = LineCutter()

    @property
    def lost(self) -> OSError | None:
        """Why nothing can be written any more."""
        return self._outlet.lost

    def begin(self, run: RunView) -> None:
        """What is going to happen."""
        self._write("begin", run=run.name, jobs=[job.name for job in run.jobs], logs=str(run.logs or ""))
        for job in run.jobs:
            if job.unhonoured:
                self.warn(job.name, f"not honoured here: {', '.join(job.unhonoured)}")

    def printed(self, rank: RankView | None, pod: Key, container: str, data: bytes) -> None:
        """What a program printed; b"" is the end of it."""
        whose: dict[str, Any] = {"job": rank.job, "type": rank.type, "rank": rank.number} if rank else {"pod": pod.name}
        for piece in self._cutter.feed((pod, container), data):
            # THE SAME BEGINNING FOR ALL LINES, made once: a chunk may have thousands of them.
            head = self._encoded("line", **whose, container=container).removesuffix("}") + ',"text":'
            first, *others = piece.data.removesuffix(b"\n").split(b"\n")
            records = [head + _text(first) + (',"continued":true}\n' if piece.continued else "}\n")]
            records += [f"{head}{_text(line)}}}\n" for line in others]
            self._outlet.write("".join(records))

    def rank(self, rank: RankView, text: str) -> None:
        """Something about a rank."""
        self._write(
            "rank",
            job=rank.job,
            type=rank.type,
            rank=rank.number,
            phase=rank.phase,
            exitCode=rank.exit_code,
            restarts=rank.restarts,
            message=text,
        )

    def job(self, job: JobView, text: str) -> None:
        """Something about a job."""
        self._write("job", job=job.name, phase=job.phase, message=text)

    def say(self, text: str) -> None:
        """Something about the run."""
        self._write("notice", message=text)

    def warn(self, label: str, text: str) -> None:
        """Something that somebody should see to."""
        self._write("warning", about=label, message=text)

    def end(self, run: RunView, code: int) -> None:
        """How it all ended."""
        jobs = [
            {
                "name": job.name,
                "namespace": job.namespace,
                "phase": job.phase,
                "message": job.verdict,
                "status": msgspec.Raw(job.status or b"{}"),
            }
            for job in run.jobs
        ]
        self._write("end", exitCode=code, jobs=jobs, logs=str(run.logs or ""))
        self.refresh(busy=False)

    def refresh(self, *, busy: bool) -> float | None:
        """Let it be read, unless there is more to come."""
        if not busy:
            self._outlet.flush()
        return None

    def _write(self, event: str, **fields: Any) -> None:
        self._outlet.write(self._encoded(event, **fields) + "\n")

    def _encoded(self, event: str, **fields: Any) -> str:
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return msgspec.json.encode({"event": event, "time": time, **fields}).decode(errors="replace")


def _text(line: bytes) -> str:
    """A line as the value of `text`, with the field that follows where that is not all of it."""
    line = line.removesuffix(b"\r")
    try:
        return msgspec.json.encode(line.decode()).decode()
    except UnicodeDecodeError:
        text, exact = line.decode(errors="replace"), b64encode(line).decode()
        return f'{msgspec.json.encode(text).decode()},"bytes":"{exact}"'
