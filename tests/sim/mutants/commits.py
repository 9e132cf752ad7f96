"""Mutants that forget, or remember too late: status is the commit point."""

from genericjob.jobs.assembly import Assembly
from genericjob.jobs.controller import JobController
from genericjob.jobs.departures import Accounts, Departures
from genericjob.jobs.observe import _Looking
from genericjob.reconcile.own_writes import OwnWrites
from sim.mutants.switch import edit, mutant

mutant(
    "deletes_before_it_commits",
    "3",
    "Pods are deleted before the status that accounts for their end is stored.",
    edit(
        JobController._bring_forward,
        "    if plan.must_remember and not self._store(",
        "    early = [self._applier._delete(found, stored.uid) for found in plan.deletes]\n"
        "    self._applier._writer.apply(early) if early else None\n"
        "    if plan.must_remember and not self._store(",
    ),
    first=("within_the_limit", "all_restart_together"),
)
mutant(
    "does_not_commit",
    "11",
    "What must be remembered is shown like anything else, when nothing else is left to do.",
    edit(JobController._bring_forward, "if plan.must_remember and not self._store(", "if False and not self._store("),
    first=("within_the_limit", "a_pause"),
)
mutant(
    "ignores_the_conflict_of_a_commit",
    "3",
    "A commit that was refused because somebody else wrote counts as stored, and the plan goes on.",
    edit(JobController._put, "            return False\n", "            return True\n"),
    first=("a_user_writes_at_the_same_moment",),
)
mutant(
    "writes_over_what_others_wrote",
    "4",
    "A status that conflicts is stored all the same, over whatever is there now.",
    edit(
        JobController._put,
        "            return False\n",
        "            status_of_others = self._api.get(JOBS, key)\n"
        "            self._api.replace_status(JOBS, key, status_body(status_of_others, status))\n"
        "            return True\n",
    ),
    first=("a_user_changes_his_mind_at_the_same_moment",),
)
mutant(
    "does_not_wait_for_its_own_writes",
    "1",
    "A cache that does not show what was written a moment ago is decided upon.",
    edit(OwnWrites.visible, "return len(seen) == len(written)", "return True"),
    first=("test_when_nothing_goes_wrong_no_write_is_in_vain[rank_zero_decides]", "watches_stand_still"),
)
mutant(
    "does_not_remember_its_commits",
    "7",
    "The cache of jobs need not show a status that was just stored.",
    edit(JobController._put, "    self._own_writes.record(", "    (lambda *_: None)("),
    first=("nobody_acts_on_what_he_has_not_seen",),
)
mutant(
    "doubts_stored_outcomes",
    "3",
    "Outcomes are read from pods alone: a rank whose finished pod is deleted has none.",
    edit(_Looking.__init__, "_within(stored.succeeded_ranks, total) if stored else", "frozenset() if stored else"),
    first=("a_finished_pod_is_deleted",),
)
mutant(
    "forgets_departures",
    "3",
    "The end of a pod that is deleted before it could be stored is lost.",
    edit(Departures.note, "if old is None or not old.owner_uid:", "if True:"),
    first=("test_an_end_that_was_seen_counts_although_the_pod_is_deleted_before_it_could_be_stored",),
)
mutant(
    "keeps_departures_while_it_stands_by",
    "8",
    "A standby remembers every pod that went, although the leader has stored how it ended.",
    edit(Assembly._job_changed, "self._sweeper.job(change.new)", "pass"),
    edit(Assembly._pod_changed, "self._sweeper.pod(change.old)", "pass"),
    first=("test_a_standby_forgets_pods_that_a_stored_status_accounts_for[All]",),
)
mutant(
    "forgets_on_a_standby_what_is_not_stored",
    "3",
    "A standby drops the end of a deleted pod before the leader has stored it.",
    edit(Accounts.cover, "return account is not None and", "return True or"),
    first=("test_who_takes_over_remembers_ends_that_its_predecessor_could_not_store",),
)
mutant(
    "keeps_departures_for_ever",
    "7",
    "What was remembered of a pod that is gone stays when its job goes.",
    edit(Departures.forget, "self._drop(owner_uid)", "pass"),
    edit(Departures.settle, "if pod.uid in pods", "if False"),
    first=("test_nothing_is_remembered_of_a_job_that_is_gone",),
)
