"""Mutants whose writes take effect when their time is over."""

from genericjob.reconcile.exchange import Exchange
from genericjob.reconcile.fence import Fence, Fenced
from genericjob.reconcile.http import HttpApi
from sim.mutants.switch import edit, mutant

LATE = ("test_no_write_is_sent_behind_the_fence_and_no_server_is_granted_more_than_is_left",)

mutant(
    "grants_the_whole_time_at_every_send",
    "10",
    "The server is told the timeout of the request, and not what is left of it.",
    edit(Exchange._encoded, "int(granted(left) * 1000)", "int(self._timeouts.write * 1000)"),
    first=LATE,
)
mutant(
    "begins_to_count_anew_when_it_sends_again",
    "10",
    "A write that is sent again after a 429 or a 401 gets a new deadline.",
    edit(Exchange.begun, "access = self._credentials.current", "access, deadline = self._credentials.current, self._clock() + seconds"),
    first=LATE,
)
mutant(
    "sends_what_is_late",
    "10",
    "A connection that came about when the time of its request was over is used nevertheless, with the least that can be granted.",
    edit(Exchange._encoded, "self._left(access, deadline), request.target", "max(0.1, deadline - self._clock()), request.target"),
    first=LATE,
)
mutant(
    "asks_the_fence_only_once",
    "10",
    "The fence is asked when a write begins, and not again when it is sent.",
    edit(Exchange._encoded, "not self._may_write()", "False"),
    first=LATE,
)
mutant(
    "gives_deletes_the_time_of_creates",
    "10",
    "Every write may take as long as a create.",
    edit(HttpApi._write, "self._timeouts.write)", "self._timeouts.create or self._timeouts.write)"),
    first=LATE,
)
mutant(
    "does_not_wait_for_what_is_on_its_way",
    "10",
    "The lease is given away although a status is on its way.",
    edit(Fence.shut, "quiet = not self._under_way", "quiet = True"),
    first=("test_who_is_asked_to_stop_keeps_the_lease_while_a_status_is_on_its_way",),
)
mutant(
    "waits_for_creates_before_it_hands_over",
    "10",
    "A create that slow admission holds up keeps the lease from being released.",
    edit(Fenced.through, 'call.verb == "create"', "False"),
    first=("test_who_is_asked_to_stop_hands_over_although_admission_holds_up_its_creates",),
)
