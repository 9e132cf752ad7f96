"""Mutants of rules, and of what comes after the end of a job."""

from genericjob.jobs.applying import Applier
from genericjob.jobs.controller import JobController
from genericjob.jobs.decide import _at_the_end, decide
from genericjob.jobs.ends import expiry, late, run_again, to_clean_up
from genericjob.jobs.restarts import _by_policy
from genericjob.jobs.rules import Ended, Rules, _never_fires, no_success_rule_reachable, verdict
from sim.mutants.switch import edit, mutant

mutant(
    "asks_for_failure_first",
    "",
    "A job whose deciding rank has succeeded fails because its peers died of that.",
    edit(verdict, "success_rule_met, failure_rule_met", "failure_rule_met, success_rule_met"),
    first=("success_and_failure_in_one_look",),
)
mutant(
    "believes_a_rule_about_nobody",
    "",
    "A rule that names no rank is true of nothing, and the job succeeds at once.",
    edit(_never_fires, "if not any(rule.values()):", "if False:"),
    first=("a_rule_about_nobody",),
)
mutant(
    "is_content_with_any_rank",
    "",
    "A rule fires when one of its ranks has ended so.",
    edit(Ended._meet, "self._ranks.get(type, _NOBODY).issuperset(items)", "bool(self._ranks.get(type, _NOBODY).intersection(items))"),
    first=("a_finished_pod_is_deleted",),
)
mutant(
    "takes_any_for_all",
    "",
    "A rule with any rank of a type is met when all of them have ended so.",
    edit(Ended._meets, "return bool(ranks) if item == ANY", "return len(ranks) == self._sizes[type] if item == ANY"),
    first=("any_worker_fails",),
)
mutant(
    "takes_all_for_any",
    "",
    "A rule with all ranks of a type is met when one of them has ended so.",
    edit(Ended._meets, "return len(ranks) == self._sizes[type]", "return bool(ranks)"),
    first=("all_workers_beside_a_server_that_never_ends", "all_means_the_replicas_of_today"),
)
mutant(
    "counts_the_end_of_a_range_out",
    "",
    "The last rank of a range is not waited for.",
    edit(Ended._meets, "self._count(type, item) == len(item)", "self._count(type, item) >= len(item) - 1"),
    first=("a_range_of_workers_decides",),
)
mutant(
    "waits_for_what_cannot_be",
    "",
    "A job that cannot succeed any more hangs until all of its ranks have ended.",
    edit(no_success_rule_reachable, "if any(not failed.forbid(rule) for rule in needed):", "if True:"),
    first=("never_means_never",),
)
mutant(
    "takes_the_endless_for_ended",
    "4",
    "A rank that is to be started again always ends like any other.",
    edit(_by_policy, "policy.most is None or charges < policy.most", "policy.most is not None and charges < policy.most"),
    first=("a_server_without_limit_beside_a_worker",),
)
mutant(
    "waits_for_the_endless",
    "",
    "Success needs the ranks that never end, too.",
    edit(Rules.of, "(ending or every,)", "(every,)"),
    first=("a_server_without_limit_beside_a_worker",),
)
mutant(
    "goes_on_after_the_end",
    "5",
    "A terminal phase is not final: the job is judged anew at every look.",
    edit(decide, "if job.status.phase in FINAL_PHASES:", "if False:"),
    first=("a_user_cleans_up_later", "all_pods_go"),
)
mutant(
    "cleans_up_before_the_end_is_stored",
    "3",
    "Pods are cleaned up in the same look that finds the job at its end, and that is stored later.",
    edit(
        _at_the_end,
        "must_remember=True, news=tuple(news))",
        "news=tuple(news), deletes=tuple(settled.seen.current_pods()) if job.spec.clean_up_policy == 'All' else ())",
    ),
    first=("all_pods_go",),
)
mutant(
    "cleans_up_finished_pods",
    "",
    "Under the policy Unfinished the finished pods go as well, with their logs.",
    edit(to_clean_up, 'and (policy == "All" or unfinished(pod))', ""),
    first=("finished_pods_stay",),
)
mutant(
    "cleans_up_unasked",
    "",
    "The policy None is taken for Unfinished.",
    edit(to_clean_up, 'if policy == "None" and', 'if policy == "Nobody" and'),
    first=("no_pod_goes",),
)
mutant(
    "leaves_running_what_exceeded_a_deadline",
    "5",
    "Who exceeds a deadline goes on running under the policy None.",
    edit(to_clean_up, "as_it_ended(job.status).reason != Reason.DEADLINE_EXCEEDED", "True"),
    first=("a_deadline_passes",),
)
mutant(
    "keeps_late_pods",
    "5",
    "A pod that was on its way when the job ended stays.",
    edit(late, "if task and task.absent_ranks:", "if False:"),
    first=("a_pod_comes_after_the_end",),
)
mutant(
    "keeps_pods_of_ranks_that_have_ended",
    "3",
    "A rank that has an outcome and gets another pod by a late write runs again.",
    edit(run_again, "if pod is not None and unfinished(pod)", "if False and unfinished(pod)"),
    first=("a_pod_comes_for_a_rank_that_has_ended",),
)
mutant(
    "deletes_what_has_changed_since",
    "3",
    "A pod that seems to run a second time is deleted although it has ended since it was looked at.",
    edit(Applier._delete, "resource_version=found.resource_version", 'resource_version=""'),
    first=("within_the_limit",),
)
mutant(
    "stores_the_same_again_and_again",
    "7",
    "The end of a job that its user wants to pause is stored once a second, and never changes.",
    edit(decide, "if job.status.phase in FINAL_PHASES:", "if job.status.phase in FINAL_PHASES and not job.spec.paused:"),
    first=("an_ended_job_is_left_alone",),
)
mutant(
    "expires_at_once",
    "",
    "A job that has ended is deleted without waiting.",
    edit(expiry, "ended + timedelta(seconds=ttl)", "ended"),
    first=("a_job_expires",),
)
mutant(
    "creates_on_although_the_job_is_gone",
    "8",
    "Creates that were planned go on although the job was deleted or changed meanwhile.",
    edit(JobController._is_unchanged, "return now is not None and", "return True or now is not None and"),
    first=("test_a_job_that_is_deleted_while_it_is_created_gets_no_more_pods",),
)
mutant(
    "deletes_an_expired_job_twice",
    "7",
    "News of the pods that go with a job come before news of the job, and it is deleted once more.",
    edit(JobController._delete, "self._expired.add(stored.uid)", "pass"),
    first=("test_a_job_that_expires_is_deleted_once",),
)
mutant(
    "believes_that_an_expired_job_is_gone",
    "",
    "A job whose delete was refused is kept for ever.",
    edit(JobController._delete, "self._expired.discard(stored.uid)", "pass"),
    first=("a_job_expires_although_the_server_refuses_it_once",),
)
