"""Mutants that write although they lead no more."""

from genericjob.jobs.assembly import Assembly
from genericjob.reconcile.fence import Fence
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.lease import Elector
from genericjob.reconcile.lease_claim import Claim
from genericjob.reconcile.process import Process
from sim.mutants.switch import edit, mutant

mutant(
    "writes_without_leading",
    "10",
    "The fence lets everything through.",
    edit(Fence.begin, "self._allowed()", "True"),
    edit(Fence.is_open, "self._allowed()", "True"),
    first=("test_who_leads_no_more_sends_nothing",),
)
mutant(
    "has_a_gap_in_its_fence",
    "10",
    "Pods are created and deleted past the fence; only the status stands behind it.",
    edit(Assembly.__init__, "Writer(fenced,", "Writer(api,"),
    first=("test_who_leads_no_more_sends_nothing",),
)
mutant(
    "stores_past_the_fence",
    "10",
    "The status is stored past the fence; only pods stand behind it.",
    edit(Assembly.__init__, "self._jobs = JobController(\n        fenced,", "self._jobs = JobController(\n        api,"),
    first=("test_who_leads_no_more_sends_nothing",),
)
mutant(
    "takes_over_before_it_has_caught_up",
    "10",
    "A standby whose caches lag behind begins with what it knows, and not with what its predecessor has written.",
    edit(Informer.reach, "for namespace, version in target.items():", "return True\n    for namespace, version in target.items():"),
    first=("test_who_takes_over_knows_first_what_its_predecessor_knew",),
)
mutant(
    "begins_before_it_has_caught_up",
    "10",
    "A process that was elected goes to work at once.",
    edit(Process._run, "self._be_elected, self._catch_up,", "self._be_elected,"),
    first=("test_who_takes_over_a_process_knows_first_what_its_predecessor_knew",),
)
mutant(
    "asks_for_a_new_target_at_each_try",
    "10",
    "A new leader wants to reach what the server has at each try, and not what it had at the election.",
    edit(Process._reach_the_server, "if target is None or not informer.reachable(target):", "if True:"),
    first=("test_a_new_leader_begins_although_lists_take_longer_than_a_try_and_the_server_moves_on",),
)
mutant(
    "leads_until_it_is_told_otherwise",
    "10",
    "A right to write that has run out is noticed by the elector's thread only, and not by those who write.",
    edit(Elector.may_write, "self._primitives.monotonic() < self._until", "self.leading"),
    first=("test_who_slept_for_too_long_sends_nothing_when_it_wakes_up",),
)
mutant(
    "takes_a_lease_that_is_held",
    "10",
    "A standby takes the lease at its first look.",
    edit(Claim.attempt, "return None if self.alive else self._store(found)", "return self._store(found)"),
    first=("test_nobody_takes_a_lease_that_is_held",),
)
mutant(
    "does_not_see_that_a_lease_is_renewed",
    "10",
    "A standby counts from when it first saw the holder.",
    edit(Claim._observe, "before.version != found.version", "before.holder != found.holder"),
    first=("test_nobody_takes_a_lease_that_is_held",),
)
mutant(
    "lets_go_of_the_lease_first",
    "10",
    "Who is asked to stop hands over at once, with writes on their way.",
    edit(Process._close, 'log.info("stopping: finishing what was begun")', "self._resign(release=True)"),
    first=("test_who_is_asked_to_stop_keeps_the_lease_until_its_writes_have_arrived",),
)
