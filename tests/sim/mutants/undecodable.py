"""Mutants of what is done with objects that cannot be decoded."""

from genericjob.jobs.assembly import Assembly
from genericjob.jobs.controller import JobController
from genericjob.jobs.observe import unfinished
from genericjob.jobs.resource import reported_as
from genericjob.reconcile.reflector import Reflector
from genericjob.reconcile.store import Store
from genericjob.reconcile.writes import Sender
from sim.mutants.switch import edit, mutant

mutant(
    "reads_what_cannot_be_decoded",
    "3",
    "A job that cannot be decoded is taken for one with an empty spec and without a status.",
    edit(JobController.reconcile, "if stored.unreadable:", "if False:"),
    first=("test_a_job_that_cannot_be_decoded_any_more_is_left_alone_and_forgets_nothing",),
)
mutant(
    "forgets_the_status_of_what_cannot_be_decoded",
    "3",
    "The condition of a job that cannot be decoded is written over everything that was stored.",
    edit(reported_as, "structs.replace(stored, status=status)", "structs.replace(stored, status=b'')"),
    first=("test_a_job_that_cannot_be_decoded_any_more_is_left_alone_and_forgets_nothing",),
)
mutant(
    "reports_jobs_of_other_controllers",
    "2",
    "A job that another controller manages gets a condition of ours when it cannot be decoded.",
    edit(reported_as, 'manager in (b"", b"null", _MANAGER)', "True"),
    first=("test_a_job_of_another_controller_is_left_alone_although_it_cannot_be_decoded",),
)
mutant(
    "takes_what_cannot_be_decoded_for_unfinished",
    "3",
    "A pod that has ended and cannot be decoded any more is deleted as one that runs again.",
    edit(unfinished, " and pod.reason != UNREADABLE", ""),
    first=("test_a_pod_that_has_ended_and_cannot_be_decoded_any_more_stays",),
)
mutant(
    "tries_for_ever_to_make_what_cannot_be_decoded",
    "8",
    "An object of ours that cannot be decoded is a failure of the server: it is made again and again, and no user reads why.",
    edit(Sender._create, "if error.unreadable:", "if False:"),
    first=("test_a_service_that_cannot_be_decoded_is_not_made_again",),
)
mutant(
    "keeps_for_ever_what_could_not_be_decoded",
    "7",
    "An object that is deleted while it cannot be decoded stays in the cache.",
    edit(Store._lose, "if old is None or gone != _may_be(old, lost):", "if True:"),
    first=("test_a_service_that_is_deleted_while_it_cannot_be_decoded_is_made_again",),
)
mutant(
    "says_nothing_of_what_cannot_be_decoded",
    "8",
    "No event is emitted about a pod that cannot be decoded.",
    edit(Assembly._report_unreadable, "elif lost.name and lost.uid:", "elif False:"),
    first=("test_a_pod_that_cannot_be_decoded_is_waited_for_and_reported",),
)
mutant(
    "reports_what_cannot_be_decoded_only_in_lists",
    "8",
    "An object that becomes undecodable while it is watched is not reported.",
    edit(Reflector._note_readability, "self._report(found, before)", "pass"),
    first=("test_a_pod_that_cannot_be_decoded_is_waited_for_and_reported",),
)
