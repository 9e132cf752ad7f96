"""Mutants that write although they lead no more."""

from genericjob.jobs.assembly import Assembly
from genericjob.reconcile.fence import Fenced
from genericjob.reconcile.informer import Informer
from sim.mutants.switch import edit, mutant

mutant(
    "writes_without_leading",
    "10",
    "The fence lets everything through.",
    edit(Fenced.through, "not self._allowed()", "False"),
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
    edit(Informer.catch_up, "wanted = self._hurry(deadline)", "return True"),
    first=("test_who_takes_over_knows_first_what_its_predecessor_knew",),
)
