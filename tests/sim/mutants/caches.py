"""Mutants of the framework: caches, watches and the queue."""

from genericjob.jobs.assembly import Assembly
from genericjob.reconcile.controller import Controller
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.reflector import Reflector
from genericjob.reconcile.store import Store
from sim.mutants.switch import edit, mutant

mutant(
    "loses_delayed_keys",
    "11",
    "A key that is to be looked at later never is.",
    edit(Controller._settle, "self._queue.again(key, result.seconds)", "pass"),
    first=("a_deadline_passes",),
)
mutant(
    "loses_keys_that_failed",
    "11",
    "A key whose reconcile raised is not looked at again.",
    edit(Controller._attempt, "self._queue.retry(key, at_least=min(error.retry_after or 0.0, LONGEST_ASKED_S))", "pass"),
    edit(Controller._attempt, "self._queue.retry(key)", "pass"),
    first=("the_server_fails_in_the_decisive_moment",),
)
mutant(
    "does_not_try_again_after_a_conflict",
    "11",
    "A key whose commit was refused because somebody else wrote is not looked at again.",
    edit(Controller._settle, "        self._queue.retry(key)\n", "        pass\n"),
    first=("a_conflict_with_nobody",),
)
mutant(
    "loses_changes_during_work",
    "11",
    "What happens to a key while somebody works on it is not looked at.",
    edit(Queue._put, "self._again[key] = _Asked(ready, low) if known is None else known.and_also(ready, low)", "pass"),
    first=("rank_zero_decides", "a_pause"),
)
mutant(
    "works_twice_on_a_key",
    "1",
    "Two workers look at the same job at the same time.",
    edit(Queue._put, "if key in self._at_work:", "if False:"),
    edit(Queue.done, "self._at_work.pop(key)", "self._at_work.pop(key, now)"),
    first=("test_when_nothing_goes_wrong_no_write_is_in_vain[two_types_with_services]", "within_the_limit"),
)
mutant(
    "begins_with_nothing",
    "11",
    "A new controller waits for changes, and does not look at what is there.",
    edit(Assembly._begin, "for job in self.jobs.values():", "for job in ():"),
    first=("rank_zero_decides",),
)
mutant(
    "begins_before_its_caches_are_filled",
    "1",
    "A new controller decides with what it has read so far.",
    edit(Assembly.start, "if not all(informer.wait_synced(timeout) for informer in self.informers):", "if False:"),
    first=("all_restart_together", "a_pause"),
)
mutant(
    "does_not_list_after_a_410",
    "11",
    "A watch whose past the server has forgotten is asked for again and again.",
    edit(Reflector._recover, "self._must_list = not _can_go_on(error) or", "self._must_list = False and"),
    first=("watches_break",),
)
mutant(
    "overlooks_what_a_list_no_longer_has",
    "11",
    "Objects that went while nobody watched are dropped from the cache, and nobody is told.",
    edit(Store.replace, "if not _lives_on(old, now.get(place))]", "if False]"),
    first=("a_pod_goes_while_watches_are_broken",),
)
mutant(
    "keeps_what_was_deleted",
    "11",
    "The cache does not hear of deletions.",
    edit(Store.apply, "changes = self._remove(found)", "changes = []"),
    first=("within_the_limit",),
)
mutant(
    "puts_old_jobs_first",
    "8",
    "A controller that begins with many jobs lets a new one wait.",
    edit(Assembly._begin, "low=True", "low=False"),
    first=("test_jobs_that_were_there_before_do_not_delay_a_new_one",),
)
