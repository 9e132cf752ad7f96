"""`genericjob watch`: the ranks of a job, live, until it ends."""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import typer

from genericjob.api.names import FINAL_PHASES, JOB_LABEL
from genericjob.reconcile.resources import RAW_PODS

from .following import Contact, Happening, Newsroom, follow, life_of
from .get import standing, why
from .jobs import JOBS, Job, Name, find, key_of, rank_of_pod, status_of
from .options import Context, Kubeconfig, Local, Namespace, Target, target
from .ranks import Pod, Rank, Ranks, Types, belongs, chosen, counted, ranks_of, table_of
from .tables import OF_PHASE, age, colourful, live, moment, now
from .text import one_line, painted, say

if TYPE_CHECKING:
    from rich.live import Live

REFRESH = 1.0
"""Seconds after which ages are shown anew."""


def watch(
    name: Name,
    types: Types = None,
    rank: Ranks = "",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Watch the ranks of a job until it ends.

    A table on a terminal, else a line for each change. Exit code 0 when the job has succeeded, 1 when it has failed or was deleted.
    """
    where = target(kubeconfig, context, namespace, run)
    job = find(where, name)
    rank = rank or rank_of_pod(job, name)
    chosen(ranks_of(job, {}), types or [], rank)
    raise typer.Exit(_Watching(where, job, types or [], rank).go())


class _Watching:
    """One job, as it changes."""

    def __init__(self, where: Target, job: Job, types: list[str], numbers: str) -> None:
        self._where, self._job = where, job
        self._types, self._numbers = types, numbers
        self._pods: dict[str, Pod] = {}
        self._shown: dict[str, str] = {}
        self._complete = self._gone = False
        self._live: Live | None = None
        self._contact = Contact(self._note, state=lambda: f"{key_of(self._job).name} was {standing(self._job)}")
        self._remark = ""

    def go(self) -> int:
        """Show it until it ends; returns the exit code."""
        key, room = key_of(self._job), Newsroom()
        labels = f"{JOB_LABEL}={key.name}"
        room.listen("job", lambda: life_of(self._where, JOBS, self._job, contact=self._contact))
        room.listen("pods", lambda: follow(self._where, RAW_PODS, key.namespace, labels=labels, contact=self._contact))
        with self._screen():
            while not self._over:
                news = room.next(REFRESH)
                while news is not None:  # all that has come meanwhile is shown at once
                    self._take(news.source, news.item)
                    news = None if self._over else room.next(0.0)
                if self._complete or self._gone:
                    self._show()
        phase = status_of(self._job).phase
        say(one_line(f"{key.name} was deleted" if self._gone else f"{key.name} {phase.lower()}: {why(self._job)}"))
        return 0 if phase == "Succeeded" and not self._gone else 1

    @property
    def _over(self) -> bool:
        return self._gone or (self._complete and status_of(self._job).phase in FINAL_PHASES)

    def _take(self, source: object, item: Job | Happening | None) -> None:
        if source == "job":
            self._gone = self._gone or item is None
            self._job = item if isinstance(item, dict) else self._job
        elif isinstance(item, Happening):
            self._complete = self._complete or item.news == "COMPLETE"
            if item.news != "COMPLETE" and belongs(item.object, self._job["metadata"]["uid"]):
                name = item.object["metadata"]["name"]
                if item.news == "PRESENT":
                    self._pods[name] = item.object
                else:
                    self._pods.pop(name, None)

    # -------------------------------------------------------------------------------------------- showing

    def _screen(self) -> "Live | nullcontext[None]":
        if not live():
            return nullcontext()
        from rich.live import Live

        self._live = Live(auto_refresh=False, transient=False)
        return self._live

    def _note(self, text: str) -> None:
        """Report something about the server: below the job, where a table is painted over all that was printed before."""
        self._remark = text
        if not self._live:
            say(f"genericjob: {text}", err=True)

    def _show(self) -> None:
        ranks = chosen(ranks_of(self._job, self._pods), self._types, self._numbers)
        if self._live:
            from rich.text import Text

            self._live.update(Text.from_ansi("\n".join(self._table(ranks))), refresh=True)
        else:
            self._tell(ranks)

    def _table(self, ranks: list[Rank]) -> Iterable[str]:
        status, meta = status_of(self._job), self._job["metadata"]
        colours = colourful()
        phase = painted(status.phase, OF_PHASE.get(status.phase, ""), colours=colours)
        yield f"{meta['name']}: {phase}, {status.ready} ready, {status.restarts} restarts, {age(moment(meta.get('creationTimestamp')))}"
        if told := why(self._job):
            yield one_line(told)[: shutil.get_terminal_size().columns - 1]
        yield one_line(self._remark)[: shutil.get_terminal_size().columns - 1] if self._contact.lost else ""
        room = max(3, shutil.get_terminal_size().lines - 6)
        shown = ranks if len(ranks) <= room else sorted(ranks, key=_interest)[: room - 1]
        yield from table_of(shown).lines(colours=colours)
        if len(shown) < len(ranks):
            yield f"… {len(ranks)} ranks: {counted(ranks)}"

    def _tell(self, ranks: list[Rank]) -> None:
        news: Mapping[str, str] = {
            key_of(self._job).name: status_of(self._job).phase,
            **{rank.label: _state(rank) for rank in ranks},
        }
        for label, state in news.items():
            if self._shown.get(label) != state:
                self._shown[label] = state
                say(f"{now():%H:%M:%S}Z {one_line(f'{label} {state}')}")


def _interest(rank: Rank) -> int:
    """What is wrong comes first."""
    order = ("Failed", "Unknown", "Terminating", "Pending", "Creating", "Running", "Deleted", "Succeeded")
    return order.index(rank.phase) if rank.phase in order else 0


def _state(rank: Rank) -> str:
    code = f" with exit code {rank.exit_code}" if rank.exit_code is not None else ""
    restarts = f", started again {'once' if rank.restarts == 1 else f'{rank.restarts} times'}" if rank.restarts else ""
    return f"{rank.phase}{code}{restarts}{f': {rank.why}' if rank.why else ''}"
