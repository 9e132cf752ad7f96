"""Mutants of fairness: whose turn it is, and for how long."""

from genericjob.jobs.applying import Applier
from genericjob.reconcile.controller import Controller
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.turns import Turns
from sim.mutants.switch import edit, mutant

mutant(
    "never_ends_its_turn",
    "8",
    "A reconcile sends all its writes, however long each takes and whoever waits.",
    edit(Applier.apply, "or not self._queue.crowded()", "or True"),
    first=("test_large_jobs_that_are_paused",),
)
mutant(
    "lets_large_jobs_go_first",
    "8",
    "A job whose writes were interrupted goes on before others have had their turn.",
    edit(Queue._put, "low = low or key in self._unfinished", "low = low"),
    first=("test_admission_that_takes_longer_than_a_turn",),
)
mutant(
    "keeps_no_worker_for_small_jobs",
    "8",
    "All workers wait for the writes of large jobs.",
    edit(Queue._next, "self._low_due() <= now", "True"),
    first=("test_admission_that_takes_longer_than_a_turn",),
)
mutant(
    "lets_low_keys_that_hang_keep_others_waiting",
    "8",
    "After a start, jobs of one namespace behind slow admission keep the jobs of all others waiting.",
    edit(Queue._low_due, "+ HANGING_S", "+ 1e9"),
    first=("test_jobs_that_were_there_before_the_controller_beside_one_namespace_whose_admission_takes_long",),
)
mutant(
    "serves_one_namespace_after_the_other",
    "8",
    "The jobs of a namespace wait for all those of another that came before them.",
    edit(Turns.take, "self._groups.move_to_end(group)", "pass"),
    edit(Queue._take, "self._full.add(group)", "pass"),
    first=("test_a_hundred_large_jobs_of_one_namespace",),
)
mutant(
    "lets_no_interrupted_job_rest",
    "8",
    "A job that computes for long uses a whole processor as long as it has writes to send.",
    edit(Controller._serve, "duration - computed if result.unfinished", "9e9 if result.unfinished"),
    first=("test_a_large_job_whose_reconciles_compute_all_the_time_rests_between_them",),
)
mutant(
    "takes_long_work_for_stuck",
    "8",
    "Writes that end do not count as progress, and a busy leader is restarted.",
    edit(Queue.progress, "if key in self._progressed:", "if False:"),
    first=("test_a_reconcile_that_gets_on_is_not_stuck_however_long_it_takes",),
)
mutant(
    "lets_one_namespace_have_all_workers",
    "8",
    "Jobs of one namespace whose writes take long occupy every worker.",
    edit(Queue._take, "self._full.add(group)", "pass"),
    first=("test_small_jobs_of_one_namespace_behind_admission_that_takes_long",),
)
mutant(
    "sends_no_relief",
    "8",
    "Nobody takes the place of workers that wait for slow admission.",
    edit(Queue.relieve, "if self._closed:", "if True:"),
    first=("test_what_is_due_later_is_not_forgotten_while_all_workers_hang",),
)
mutant(
    "forgets_the_time_while_workers_hang",
    "8",
    "What is due later is not looked at while every worker waits for the server.",
    edit(Queue.relieve, "self._ripen(now)", "pass"),
    first=("test_what_is_due_later_is_not_forgotten_while_all_workers_hang",),
)
