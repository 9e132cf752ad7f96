"""Mutants of what people are shown."""

from genericjob.jobs.controller import JobController
from genericjob.jobs.refusals import Refusals
from genericjob.jobs.status import _condition
from genericjob.jobs.tasks import tasks_of
from genericjob.jobs.waiting import _each
from genericjob.reconcile.coalesce import Coalescer
from sim.mutants.switch import edit, mutant

mutant(
    "does_not_count_the_deleted",
    "6",
    "Counts do not sum to the number of replicas.",
    edit(tasks_of, "counts[phase] for phase in counts}", 'counts[phase] for phase in counts if phase != "Deleted"}'),
    first=("a_pause",),
)
mutant(
    "counts_the_ended_as_creating",
    "6",
    "A rank that has ended and has no pod is shown as one that is being created.",
    edit(tasks_of, "coming = frozenset() if ended or paused else part.open", "coming = frozenset(range(len(part.names)))"),
    first=("a_pod_comes_for_a_rank_that_has_ended",),
)
mutant(
    "stamps_conditions_at_every_look",
    "6",
    "The time of a condition is that of the last look.",
    edit(_condition, "before.last_transition_time if before and before.status == status else now", "now"),
    first=("rank_zero_decides",),
)
mutant(
    "writes_at_every_look",
    "7",
    "A status is written although it says what is stored.",
    edit(JobController._show, "if job.status in (status, shortened(status)):", "if False:"),
    first=("a_look_without_a_change",),
)
mutant(
    "shows_everything_at_once",
    "7",
    "Counts are written whenever they change, not once a second.",
    edit(Coalescer.due, "return 0.0 if written is None else", "return 0.0 if True else"),
    first=("test_what_is_merely_shown_is_written_once_a_second_at_most",),
)
mutant(
    "does_not_say_what_it_waits_for",
    "",
    "A pod that does not go is waited for in silence.",
    edit(_each, "if now >= pod.deleted + PATIENCE:", "if False:"),
    first=("a_node_is_lost_and_comes_back",),
)
mutant(
    "has_no_patience_with_refusals",
    "8",
    "What the server refuses is tried again at once, and again.",
    edit(Refusals.wait, "max(0.0, found.until - now) if found", "0.0 if found"),
    edit(Refusals.note, "return wait", "return 0.01"),
    first=("a_quota_is_raised",),
)
