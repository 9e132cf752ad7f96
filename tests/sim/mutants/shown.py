"""Mutants of what people are shown."""

from genericjob.jobs.applying import Applied
from genericjob.jobs.controller import JobController
from genericjob.jobs.pods import _without_links
from genericjob.jobs.refusals import Refusals
from genericjob.jobs.resource import _read, status_body
from genericjob.jobs.services import _leads_elsewhere
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
    "drops_conditions_of_others",
    "6",
    "A status that is stored has the conditions of this controller only.",
    edit(status_body, "if others := of_others(stored.status):", "if others := ():"),
    first=("test_conditions_of_other_writers_stay_as_they_are_and_cause_no_write[2026-01-01T08:00:00.123456789+08:00]",),
)
mutant(
    "takes_conditions_of_others_for_a_change",
    "7",
    "A condition that another writer adds makes the controller write its status again.",
    edit(_read, "own(_status.decode(status))", "_status.decode(status)"),
    first=("test_conditions_of_other_writers_stay_as_they_are_and_cause_no_write[2026-01-01T08:00:00.123456789+08:00]",),
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
mutant(
    "waits_for_the_last_of_all_refusals",
    "8",
    "A pod that could not be deleted is tried again when everything else is.",
    edit(Applied.merged, "min(waits, default=None)", "max(waits, default=None)"),
    first=("test_a_pod_that_could_not_be_deleted_does_not_wait_for_creates_that_are_refused_at_the_same_time",),
)
mutant(
    "links_every_service",
    "",
    "Every container has variables for every service of its namespace.",
    edit(_without_links, "SERVICE_LINKS: False", "SERVICE_LINKS: True"),
    first=("replicas_with_addresses",),
)
mutant(
    "wastes_addresses",
    "",
    "Services that are only names take a cluster address each.",
    edit(_leads_elsewhere, '(None, 0, "", port.port)', '(None, 0, "")'),
    first=("replicas_with_names_alone",),
)
