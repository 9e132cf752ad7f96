"""Mutants of pause, resume and debug."""

from genericjob.api.spec import GenericJobSpec
from genericjob.jobs.course import Course
from genericjob.jobs.decide import _missing, _paused, _resume, _verdict, decide
from genericjob.jobs.ends import deadline
from genericjob.jobs.modes import mode_of
from genericjob.jobs.observe import Observation, _Looking, observe
from genericjob.jobs.pods import compile_pods
from genericjob.jobs.restarts import _ends, says_nothing
from genericjob.jobs.status import _Story
from sim.mutants.switch import edit, mutant

mutant(
    "forgets_the_epoch_of_a_pause",
    "5",
    "A pause ends no epoch, so the pods from before it count after it.",
    edit(Course.pausing, "epoch=self.epoch + 1", "epoch=self.epoch"),
    first=("a_pause",),
)
mutant(
    "resumes_with_old_outcomes",
    "3",
    "A rank that had ended before a pause does not run after it.",
    edit(_resume, "begin_anew(settled.seen)", "begin_anew(settled.seen, outcomes=True)"),
    first=("one_had_succeeded_before_the_pause",),
)
mutant(
    "resumes_beside_old_pods",
    "5",
    "Pods of a new epoch are created while some of the old one are there.",
    edit(_missing, "if seen.of_earlier_epochs(course.epoch):", "if False:"),
    first=("a_node_is_lost_in_a_pause",),
)
mutant(
    "takes_those_on_their_way_out_for_gone",
    "5",
    "A pod of the old epoch that was asked to go is not waited for.",
    edit(Observation.of_earlier_epochs, " for pod in self.old_pods())", " for pod in self.old_pods() if pod.deleted is None)"),
    first=("a_node_is_lost_in_a_pause",),
)
mutant(
    "creates_while_paused",
    "5",
    "A paused job gets the pods that it lacks.",
    edit(_paused, "        news=news,\n", "        news=news,\n        pods=_missing(seen, course, now)[0],\n"),
    first=("created_paused",),
)
mutant(
    "pauses_without_deleting",
    "5",
    "The pods of a paused job run on.",
    edit(_paused, "(*_going(seen.old_pods()), *seen.stray_services())", "seen.stray_services()"),
    first=("a_pause",),
)
mutant(
    "says_paused_while_pods_terminate",
    "5",
    "A job whose pods were asked to end is said to be paused, although its programs still run.",
    edit(_Story._phase, 'if self._terminating else "Paused"', 'if False else "Paused"'),
    first=("a_pause",),
)
mutant(
    "knows_one_switch_only",
    "",
    "A job whose spec.suspend is on is not paused.",
    edit(GenericJobSpec.paused, "self.suspend or ", ""),
    first=("created_paused",),
)
mutant(
    "ends_while_paused",
    "5",
    "Rules are asked about the outcomes of an epoch that is over.",
    edit(_verdict, "if settled.course.paused:", "if False:"),
    first=("what_is_left_had_succeeded",),
)
mutant(
    "counts_paused_time",
    "5",
    "A pause is not taken off the time that a job was active.",
    edit(Course.resuming, "paused_seconds=self.paused_seconds + taken", "paused_seconds=self.paused_seconds"),
    first=("a_deadline_passes_but_not_in_a_pause",),
)
mutant(
    "lets_a_deadline_pass_in_a_pause",
    "5",
    "A job that is paused for long ends of it.",
    edit(_verdict, "if settled.course.paused:", "if False:"),
    edit(deadline, "if limit is None or course.paused:", "if limit is None:"),
    edit(Course.active, "self.pause_time or now", "now"),
    first=("a_deadline_passes_but_not_in_a_pause",),
)
mutant(
    "resumes_as_if_for_the_first_time",
    "",
    "The command for a job that goes on is never used.",
    edit(mode_of, "if resumed else AS_WRITTEN", "if False else AS_WRITTEN"),
    first=("a_pause_and_on",),
)
mutant(
    "takes_a_first_start_for_a_resume",
    "",
    "A job that a queue has created suspended starts with the command of a job that goes on.",
    edit(_paused, "before_start=not started and not _created_paused(job)", "before_start=False"),
    first=("a_queue_admits_a_job_and_takes_it_back",),
)
mutant(
    "takes_a_resume_for_a_first_start",
    "",
    "A job that is created with runMode.pause starts with its own command.",
    edit(_paused, "before_start=not started and not _created_paused(job)", "before_start=not started"),
    first=("created_with_a_pause_and_resumed",),
)
mutant(
    "keeps_services_of_nobody",
    "",
    "The service of a rank that is no more stays.",
    edit(Observation.stray_services, "if not self.services:", "if True:"),
    first=("fewer_replicas_after_a_pause",),
)
mutant(
    "overlooks_ranks_that_are_no_more",
    "5",
    "The pod of a rank that the job had once is not seen.",
    edit(observe, "if known < len(by_name):", "if False:"),
    first=("who_is_no_more_goes_last",),
)
mutant(
    "believes_a_pod_that_was_asked_to_go",
    "3",
    "How a pod ends after somebody deleted it is taken for an outcome.",
    edit(_Looking.ranks, "pod.phase in FINISHED and pod.deleted is None and", "pod.phase in FINISHED and"),
    first=("a_deleted_pod_takes_its_time_and_claims_success",),
)
mutant(
    "asks_what_the_debugged_did",
    "4",
    "The end of a program that is debugged counts, and rules are asked.",
    edit(says_nothing, 'pod.annotations.get(DEBUG_ANNOTATION) == "true" or ', ""),
    edit(_verdict, "if not job.spec.debugged and (ended", "if (ended"),
    first=("a_debugged_program_exits",),
)
mutant(
    "does_not_mark_who_is_debugged",
    "4",
    "When the debugging is over, the end of a pod that waited for a debugger counts as work.",
    edit(compile_pods, '"true" if spec.debugged else None', "None"),
    first=("the_debugging_is_over_without_a_pause",),
)
mutant(
    "resumes_rather_than_debugs",
    "",
    "The command for a job that goes on wins over the debugger's.",
    edit(mode_of, "if spec.debugged:", "if spec.debugged and not resumed:"),
    first=("debug_and_pause",),
)
mutant(
    "pauses_what_has_ended",
    "5",
    "A job that has ended is paused, and runs again when it is resumed.",
    edit(decide, "if job.status.phase in FINAL_PHASES:", "if job.status.phase in FINAL_PHASES and not job.spec.paused:"),
    edit(decide, "if ended := _verdict(job, settled, now):", "if not job.spec.paused and (ended := _verdict(job, settled, now)):"),
    first=("a_finished_job_is_paused",),
)
mutant(
    "takes_a_pause_for_a_loss",
    "5",
    "Members of a gang that go because of a pause are taken for lost.",
    edit(_ends, 'job.status.phase == "Running" and not course.paused', 'job.status.phase in ("Running", "Pausing")'),
    first=("a_pause_is_no_restart_of_the_job",),
)
mutant(
    "leaves_a_pause_half_done",
    "11",
    "Whoever finds a pause that somebody else has stored deletes nothing.",
    edit(_paused, "deletes=(*_going(seen.old_pods()), *seen.stray_services())", "deletes=tuple(_going(seen.old_pods())) if begins else ()"),
    first=("a_pause",),
)
