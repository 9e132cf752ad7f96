"""How ranks and jobs ended, in words."""

from datetime import UTC, datetime

from genericjob.api import ranges
from genericjob.api.status import GenericJobStatus, Task
from genericjob.jobs.job import Job
from genericjob.jobs.ledger import EMPTY, Ledger
from genericjob.jobs.rules import Ended, written
from genericjob.jobs.status import condition
from genericjob.reconcile.objects import Container, Pod

from .text import one_line
from .views import ENDED, RankView

FAILED, BY_RULE = "The job is failed: ", "The job is failed with rule: "
"""How the controller begins to say why."""
SOON = 0.5
"""Seconds that nobody needs to be told of."""


class Judged:
    """What the controller has decided about the ranks of a type."""

    def __init__(self, task: Task, most: int | None) -> None:
        self._ledger = Ledger.of(task, 1 << 30) if task.charged_restarts or task.uncharged_restarts else EMPTY
        self._over = ranges.parse(task.failed_ranks) | ranges.parse(task.succeeded_ranks)
        self._most = most

    def is_over(self, rank: RankView) -> bool:
        """Whether a rank has its outcome."""
        return rank.number in self._over

    def again(self, rank: RankView) -> str:
        """How a rank goes on that is started again, which its view knows from now on; nothing if it is not."""
        attempt, charged = self._ledger.attempt(rank.number), self._ledger.charged.get(rank.number, 0)
        if attempt <= rank.restarts:
            return ""
        rank.restarts = attempt
        moment = self._ledger.not_before(rank.number)
        wait = (moment - datetime.now(UTC)).total_seconds() if moment else 0.0
        when = f" in {max(1, round(wait))} s" if wait > SOON else ""
        limit = f" of {self._most}" if self._most is not None else ""
        return f", restart {charged}{limit}{when}" if charged else f", is started again{when}, not charged"


def verdict(job: Job, status: GenericJobStatus) -> str:
    """Why a job has ended, with the rule."""
    ended = condition(status, "Completed" if status.phase == "Succeeded" else "Failed")
    message = _without_what_is_said_anyway(ended.message if ended else "")
    if status.phase != "Succeeded" or not job.design.rules.explicit_success:
        return message
    ranks = {task.type: ranges.parse(task.succeeded_ranks) for task in status.tasks}
    succeeded = Ended(ranks, job.design.rules.sizes)
    met = next((rule for rule in job.design.rules.success if succeeded.meet(rule)), None)
    return f"the rule {written(met, ranks)} is met" if met else message


def _without_what_is_said_anyway(message: str) -> str:
    """Of a failure, the reason: that the job has failed stands before it."""
    rule = message.removeprefix(BY_RULE)
    return f"the rule {rule} is met" if rule != message else message.removeprefix(FAILED)


def end_of(pod: Pod) -> tuple[int | None, str]:
    """The exit code that tells how a pod ended, and what is to be said of its containers."""
    containers: tuple[Container, ...] = (*pod.init_containers, *pod.containers)
    ended = [one for one in containers if one.exit_code is not None]
    if pod.phase not in ENDED or not ended:
        return None, next((_told(one) for one in containers if one.message), "")
    told = next((one for one in ended if one.exit_code), ended[-1])
    return told.exit_code, _told(told) if told.message else ""


def _told(container: Container) -> str:
    """A container's message in one line: a program may have written whatever it liked into it."""
    return one_line(f"{container.name}: {container.message}")
