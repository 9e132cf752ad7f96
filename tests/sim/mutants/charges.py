"""Mutants that restart wrongly: too often, too seldom, too early, at somebody else's expense."""

from genericjob.api.spec import RestartPolicy
from genericjob.jobs.course import Course
from genericjob.jobs.decide import _missing
from genericjob.jobs.ledger import Entries, Ledger, back_off
from genericjob.jobs.restarts import _all_old, _by_policy, _ends, disrupted, says_nothing, settle
from sim.mutants.switch import edit, mutant

mutant(
    "charges_a_disruption",
    "4",
    "A rank pays for having been in the way.",
    edit(says_nothing, " or disrupted(pod)", ""),
    first=("a_disruption_is_not_charged",),
)
mutant(
    "charges_a_deletion_by_others",
    "4",
    "A rank pays when somebody deletes its pod.",
    edit(_ends, 'pod.name, pod, "uncharged", lost=True', 'pod.name, pod, "charged", lost=True'),
    first=("a_running_pod_is_deleted",),
)
mutant(
    "charges_nothing",
    "4",
    "Every restart is on the house.",
    edit(_by_policy, 'return "charged" if left else "failed"', 'return "uncharged" if left else "failed"'),
    first=("beyond_the_limit",),
)
mutant(
    "charges_twice",
    "4",
    "One failure costs two restarts.",
    edit(Entries.restart, "counts.get(rank, 0) + 1", "counts.get(rank, 0) + 2"),
    first=("within_the_limit",),
)
mutant(
    "forgives_charges_in_a_pause",
    "4",
    "A new epoch begins with all restarts again.",
    edit(_all_old, "        ends={},\n", "        ends={},\n        ledger=type(part.ledger)(),\n"),
    first=("a_pause_between_two_failures",),
)
mutant(
    "restarts_once_too_often",
    "4",
    "The limit is exceeded by one.",
    edit(_by_policy, "charges < policy.most", "charges <= policy.most"),
    first=("beyond_the_limit",),
)
mutant(
    "restarts_once_too_seldom",
    "4",
    "The last restart that was allowed does not happen.",
    edit(_by_policy, "charges < policy.most", "charges + 1 < policy.most"),
    first=("within_the_limit",),
)
mutant(
    "restarts_although_never",
    "4",
    "The policy Never with a limit is taken for OnFailure.",
    edit(RestartPolicy.most, 'if self.policy == "Never":', "if False:"),
    first=("never_means_never",),
)
mutant(
    "charges_exit_codes_that_are_free",
    "4",
    "An exit code that asks for another try is charged.",
    edit(_by_policy, "codes.issubset(policy.exit_codes.not_charged)", "False"),
    first=("an_exit_code_that_is_not_charged",),
)
mutant(
    "restarts_where_nothing_helps",
    "4",
    "An exit code after which nothing helps is a failure like any other.",
    edit(_by_policy, "if codes.intersection(policy.exit_codes.never_restart):", "if False:"),
    first=("an_exit_code_after_which_nothing_helps",),
)
mutant(
    "forgives_every_eviction",
    "4",
    "A pod that was evicted through its own fault is started again without a charge.",
    edit(disrupted, 'return pod.phase == "Failed" and', 'return pod.reason == "Evicted" or pod.phase == "Failed" and'),
    first=("an_eviction_by_its_own_fault_is_charged",),
)
mutant(
    "does_not_raise_the_attempt",
    "4",
    "A restart is not counted, so the old pod and the new one are the same try.",
    edit(Entries.restart, "counts.get(rank, 0) + 1", "counts.get(rank, 0)"),
    first=("within_the_limit",),
)
mutant(
    "restarts_before_the_old_pod_is_gone",
    "1",
    "The next try of a rank is created while the last one still has its name.",
    edit(_missing, " | part.old.keys()", ""),
    first=("a_restart_waits_for_a_pod_that_does_not_go",),
)
mutant(
    "does_not_back_off",
    "11",
    "A rank that fails again and again is started again at once, each time.",
    edit(back_off, "if in_a_row > 1 else 0.0", "if False else 0.0"),
    first=("each_wait_is_longer",),
)
mutant(
    "does_not_store_when_it_restarted",
    "11",
    "The time of a restart is in no status, so nobody waits.",
    edit(Ledger.written, "for rank, moment in self.last.items()", "for rank, moment in ()"),
    first=("each_wait_is_longer",),
)
mutant(
    "waits_no_longer_each_time",
    "11",
    "Restarts in a row are not counted.",
    edit(Entries.restart, "1 if forgiven else", "1 if True else"),
    first=("each_wait_is_longer",),
)
mutant(
    "restarts_one_where_all_should",
    "4",
    "With scope Job only the rank that failed is started again.",
    edit(_ends, 'replicas.restart_policy.scope == "Job" and not debugged', "False"),
    first=("all_restart_together",),
)
mutant(
    "restarts_all_without_a_charge",
    "4",
    "Restarts of the whole job are not counted.",
    edit(settle, 'charged=cause.judgement == "charged"', "charged=False"),
    first=("all_restart_too_often",),
)
mutant(
    "charges_all_for_a_disruption",
    "4",
    "The whole job pays when one of its ranks was in the way.",
    edit(settle, 'charged=cause.judgement == "charged"', "charged=True"),
    first=("all_restart_and_nobody_is_charged",),
)
mutant(
    "restarts_all_in_the_same_epoch",
    "4",
    "A restart of the whole job begins no epoch, so its pods count as before.",
    edit(Course.restarting, "epoch=self.epoch + 1", "epoch=self.epoch"),
    first=("all_restart_together",),
)
mutant(
    "restarts_all_but_those_that_had_succeeded",
    "3",
    "Outcomes outlive a restart of the whole job.",
    edit(settle, "begin_anew(after)", "begin_anew(after, outcomes=True)"),
    first=("one_had_succeeded_when_all_restart",),
)
mutant(
    "does_not_miss_a_member_that_vanished_unseen",
    "1",
    "With scope Job a rank whose pod went while no controller was there runs again alone.",
    edit(_ends, "if together and job.status.phase ==", "if False and job.status.phase =="),
    first=("a_member_vanishes",),
)
mutant(
    "does_not_miss_a_member_when_another_one_ends",
    "1",
    "The same, if another rank of its type has ended meanwhile.",
    edit(_ends, "if together and job.status.phase ==", "if together and not part.ends and job.status.phase =="),
    first=("test_so_does_one_that_goes_while_another_one_ends",),
)
