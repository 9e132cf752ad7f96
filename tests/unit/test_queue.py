"""The work queue, one behaviour at a time, on a clock that the test moves."""

import pytest

from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.queue import Queue
from sim.scheduler import Stepped
from unit.alone import Alone, WouldWaitError, waits


@pytest.fixture
def clock():
    return Alone()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def queue(clock, metrics):
    return Queue(primitives=clock, metrics=metrics.queue("q"))


def served(queue, count):
    keys = []
    for _ in range(count):
        keys.append(queue.get())
        queue.done(keys[-1])
    return keys


def test_a_key_added_often_is_served_once_in_the_order_of_its_first_add(queue):
    for key in "abacb":
        queue.add(key)
    assert served(queue, 3) == ["a", "b", "c"]
    assert waits(queue) is None


def test_a_key_is_never_in_two_hands_and_a_change_during_work_is_not_lost(queue):
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert waits(queue) is None
    queue.done("a")
    assert queue.get() == "a"
    queue.done("a")
    assert waits(queue) is None


def test_the_earliest_time_wins(queue, clock):
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    assert waits(queue) == 5
    clock.time = 5.0
    assert served(queue, 1) == ["a"]
    clock.time = 100.0
    assert waits(queue) is None


def test_now_is_earlier_than_any_time(queue, clock):
    queue.add_after("a", 10)
    queue.add("a")
    queue.add_after("b", 0)
    queue.add_after("c", -1)
    assert served(queue, 3) == ["a", "b", "c"]
    clock.time = 10.0
    assert waits(queue) is None


def test_failures_wait_longer_each_time_until_they_are_forgotten(queue, clock):
    def retry():
        queue.add("a")
        assert queue.get() == "a"
        queue.retry("a")
        queue.done("a")
        wait = waits(queue)
        clock.time += wait
        assert served(queue, 1) == ["a"]
        return round(wait, 6)

    assert [retry() for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.failures("a") == 0
    assert retry() == 0.005
    for _ in range(30):
        last = retry()
    assert last == 1000


def test_a_retry_waits_at_least_as_long_as_the_server_asked_for(queue):
    queue.add("a")
    queue.get()
    queue.retry("a", at_least=3)
    queue.done("a")
    assert waits(queue) == 3


def test_an_add_overtakes_a_retry(queue):
    queue.add("a")
    queue.get()
    queue.retry("a", at_least=100)
    queue.add("a")
    queue.done("a")
    assert queue.get() == "a"


def test_low_keys_come_after_all_others(queue):
    for key in "abc":
        queue.add(key, low=True)
    queue.add("x")
    queue.add("b")
    assert served(queue, 4) == ["x", "b", "a", "c"]


def test_a_low_add_does_not_lower_a_key(queue):
    queue.add("low", low=True)
    queue.add_after("a", 0, low=True)
    queue.add("a")
    queue.add("a", low=True)
    assert served(queue, 2) == ["a", "low"]


@pytest.mark.parametrize("put_back", [lambda queue: queue.retry("a"), lambda queue: queue.again("a", 0.005)])
@pytest.mark.parametrize("low", [True, False])
def test_what_is_looked_at_again_keeps_its_priority(queue, clock, low, put_back):
    queue.add("a", low=low)
    queue.get()
    put_back(queue)
    queue.done("a")
    clock.time = 0.005
    queue.add("b", low=True)
    queue.add("c", low=not low)
    assert served(queue, 3) == (["c", "b", "a"] if low else ["a", "b", "c"])


def test_a_key_that_was_low_once_is_not_low_for_ever(queue, clock):
    queue.add("a", low=True)
    served(queue, 1)
    queue.add("a")
    queue.get()
    queue.retry("a")
    queue.done("a")
    queue.add("b", low=True)
    clock.time = 1.0
    assert served(queue, 2) == ["a", "b"]


def test_what_changes_during_low_work_is_not_low(queue):
    queue.add("a", low=True)
    queue.get()
    queue.retry("a")
    queue.add("b", low=True)
    queue.add("a")
    queue.done("a")
    assert served(queue, 2) == ["a", "b"]


def test_low_keys_that_have_waited_long_take_turns_with_the_others(queue, clock):
    for key in "abcd":
        queue.add(key, low=True)
    clock.time = 29.9
    for key in "uvwxyz":
        queue.add(key)
    assert served(queue, 2) == ["u", "v"]
    clock.time = 30.0
    queue.add("e", low=True)
    assert served(queue, 9) == ["a", "w", "b", "x", "c", "y", "d", "z", "e"]


def test_groups_take_turns_and_keys_of_a_group_come_in_their_order(clock, metrics):
    queue = Queue(primitives=clock, metrics=metrics.queue("q"), group=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "a4", "c1", "b2"):
        queue.add(key)
    assert served(queue, 3) == ["a1", "b1", "c1"]
    queue.add("d1")
    queue.add("a1")
    assert served(queue, 6) == ["a2", "b2", "d1", "a3", "a4", "a1"]


def test_a_key_that_is_raised_takes_its_turn_in_its_group(clock, metrics):
    queue = Queue(primitives=clock, metrics=metrics.queue("q"), group=lambda key: key[0])
    for key in ("a1", "a2", "b1"):
        queue.add(key, low=True)
    for key in ("c1", "c2", "a1"):
        queue.add(key)
    assert served(queue, 5) == ["c1", "a1", "c2", "a2", "b1"]


@pytest.mark.parametrize(("known", "order"), [(None, ["small", "big"]), (False, ["big", "small"])])
def test_unfinished_work_stays_so_until_it_is_known_to_be_finished(queue, known, order):
    """A reconcile that came before the caches, or failed, has finished nothing."""
    for unfinished in (True, known):
        queue.add("big")
        assert queue.get() == "big"
        queue.done("big", unfinished=unfinished)
    queue.add("big")
    queue.add("small")
    assert served(queue, 2) == order


@pytest.fixture
def hanging(clock, metrics):
    """A queue for two workers, both of which are at work since 0 s."""
    queue = Queue(primitives=clock, metrics=metrics.queue("q"), places=2)
    for key in ("first", "second"):
        queue.add(key)
        assert queue.get() == key
    return queue


def relief_waits(queue):
    with pytest.raises(WouldWaitError) as caught:
        queue.relieve()
    queue._reliefs_waiting = 0
    return caught.value.args[0]


def test_a_relief_takes_the_place_of_a_key_that_hangs(hanging, clock):
    hanging.add("third")
    clock.time = 0.5
    hanging.progress("first")
    assert relief_waits(hanging) == 0.5  # until a second after the last progress of the one that hangs
    clock.time = 1.0
    assert hanging.relieve() == "third"
    hanging.add("fourth")
    assert relief_waits(hanging) == 0.5  # "first" and "third" make progress, as far as is known
    clock.time = 1.5
    assert hanging.relieve() == "fourth"


def test_a_relief_leaves_keys_to_a_worker_that_is_free(hanging, clock):
    clock.time = 5.0
    hanging.done("first")
    hanging.add("third")
    assert relief_waits(hanging) is None
    assert hanging.get() == "third"


def test_a_relief_watches_the_time_while_all_workers_hang(hanging, clock):
    hanging.add_after("later", 30.0)
    clock.time = 5.0
    assert relief_waits(hanging) == 25.0
    clock.time = 30.0
    assert hanging.relieve() == "later"


def test_reliefs_end_with_the_queue(hanging):
    hanging.shut_down(drain=True)
    assert hanging.relieve() is None


def test_unfinished_work_comes_after_everything_else_whoever_adds_it(queue, clock):
    queue.add("big")
    queue.get()
    queue.add("big")
    queue.done("big", unfinished=True)
    queue.add("small")
    queue.add("big")
    queue.add("old", low=True)
    assert served(queue, 1) == ["small"]
    queue.get()
    queue.again("big", 1)
    queue.done("big", unfinished=True)
    assert served(queue, 1) == ["old"]
    clock.time = 1.0
    queue.add("small")
    assert served(queue, 2) == ["small", "big"]


def test_work_that_is_finished_counts_as_any_other_again(queue):
    queue.add("big")
    queue.get()
    queue.add("big")
    queue.done("big", unfinished=True)
    queue.get()
    queue.add("big")
    queue.add("old", low=True)
    queue.done("big")
    assert served(queue, 2) == ["big", "old"]


def test_low_keys_that_hang_keep_no_other_low_key_waiting(clock, metrics):
    queue = Queue(primitives=clock, metrics=metrics.queue("q"), group=lambda key: key, share=2)
    for key in "abcd":
        queue.add(key, low=True)
    assert [queue.get(), queue.get()] == ["a", "b"]
    clock.time = 0.6
    queue.progress("b")
    assert waits(queue) == pytest.approx(0.4)  # until a second after the last progress of "a"
    clock.time = 1.0
    assert queue.get() == "c"
    assert waits(queue) == pytest.approx(0.6)  # then of "b"
    clock.time = 1.6
    assert queue.get() == "d"
    assert waits(queue) is None


def test_low_keys_do_not_take_all_workers(clock, metrics):
    queue = Queue(primitives=clock, metrics=metrics.queue("q"), group=lambda key: key, share=2)
    for key in "abc":
        queue.add(key, low=True)
    assert [queue.get(), queue.get()] == ["a", "b"]
    assert waits(queue) == 1.0  # until both count as hanging
    queue.add("x")
    assert queue.get() == "x"
    assert queue.crowded()
    queue.done("b")
    assert queue.get() == "c"
    assert not queue.crowded()
    queue.add("d", low=True)
    clock.time = 100.0
    for key in "ac":
        queue.progress(key)
    queue.add("y")
    assert queue.get() == "y"  # however long it has waited
    queue.shut_down(drain=True)
    assert queue.get() is None
    queue.done("a")
    assert queue.get() == "d"


def test_keys_of_one_group_do_not_take_all_workers(clock, metrics):
    queue = Queue(primitives=clock, metrics=metrics.queue("q"), group=lambda key: key[0], share=2)
    for key in ("a1", "a2", "a3", "a4"):
        queue.add(key, low=key == "a4")
    assert [queue.get(), queue.get()] == ["a1", "a2"]
    assert waits(queue) is None
    queue.add("b1")
    assert queue.get() == "b1"
    queue.done("a1")
    assert queue.get() == "a3"
    assert waits(queue) is None
    queue.shut_down(drain=True)
    assert queue.get() is None
    queue.done("a2")
    assert queue.get() == "a4"


def test_a_worker_that_waits_for_a_share_is_called_when_there_is_one():
    with Stepped(1) as stepped:
        process = stepped.process("p")
        queue, served = Queue(primitives=process, metrics=Metrics().queue("q"), group=lambda key: key[0], share=1), []

        def working():
            while (key := queue.get()) is not None:
                served.append((key, process.monotonic()))
                process.sleep(1)
                queue.done(key)

        for _ in range(2):
            process.start("works", working)
        queue.add("a1", low=True)
        stepped.advance(0.5)
        queue.add("a2")  # of a group that has its share
        queue.add("b1", low=True)  # low, as the one at work
        stepped.advance(60)
        assert served == [("a1", 0), ("a2", 1), ("b1", 1)]


def test_a_key_at_work_is_silent_since_it_last_got_on(queue, clock):
    queue.add("a")
    queue.add("b")
    queue.get()
    clock.time = 5.0
    queue.get()
    clock.time = 8.0
    queue.progress("a")
    queue.progress("not at work")
    clock.time = 10.0
    assert (queue.working(), queue.silent()) == ([10, 5], [2, 5])
    queue.done("a")
    assert queue.silent() == [5]


def test_a_key_that_gets_on_is_not_stuck_for_the_health_check(queue, metrics, clock):
    queue.add("a")
    queue.get()
    clock.time = 1000.0
    assert metrics.longest_silence() == {"q": 1000.0}
    queue.progress("a")
    assert metrics.longest_silence() == {"q": 0.0}


def test_a_key_that_rests_is_served_when_the_rest_is_over(queue, clock):
    queue.add("a")
    queue.get()
    queue.add("a")
    queue.done("a", rest=2)
    queue.add("b")
    assert served(queue, 1) == ["b"]
    queue.add("a")
    assert waits(queue) == 2
    clock.time = 2.0
    assert served(queue, 1) == ["a"]


def test_what_comes_during_a_rest_waits_and_what_comes_after_does_not(queue, clock):
    queue.add("a")
    queue.get()
    queue.done("a", rest=2)
    assert waits(queue) is None
    clock.time = 1.0
    queue.add("a")
    queue.add_after("a", 0.5)
    assert waits(queue) == 1
    clock.time = 2.0
    assert served(queue, 1) == ["a"]
    queue.add("a")
    queue.get()
    queue.done("a", rest=2)
    clock.time = 4.0
    queue.add("a")
    assert served(queue, 1) == ["a"]


def test_rests_and_timers_that_are_over_are_not_kept(queue, clock):
    for n in range(1000):
        clock.time += 1
        queue.add_after("always", 100_000)
        queue.add("always")
        queue.add(n)
        for _ in range(2):
            queue.done(queue.get(), rest=0.5)
    assert len(queue._resting) + len(queue._rests) + len(queue._timers) < 100


def test_draining_hands_out_what_is_ready_and_nothing_else(queue, clock):
    for key in ("at work", "failing", "has failed"):
        queue.add(key)
        assert queue.get() == key
    queue.add("ready")
    queue.add("low", low=True)
    queue.add_after("due", 1)
    queue.add_after("later", 2)
    queue.add("at work")
    queue.retry("has failed", at_least=10)
    clock.time = 1.0
    queue.shut_down(drain=True)
    queue.add("late")
    queue.add_after("late", 0)
    queue.retry("failing")
    queue.done("failing")
    queue.done("has failed")
    queue.done("at work", rest=10)
    assert served(queue, 4) == ["ready", "due", "at work", "low"]
    clock.time = 100.0
    assert queue.get() is None
    assert queue.get() is None


def test_without_draining_only_work_that_has_begun_is_finished(queue):
    queue.add("at work")
    queue.get()
    queue.add("at work")
    queue.add("ready")
    queue.add_after("later", 1)
    queue.shut_down(drain=False)
    assert queue.get() is None
    queue.done("at work")
    assert queue.get() is None


def test_a_queue_is_idle_when_nothing_is_ready_or_at_work(queue, clock):
    assert queue.idle()
    queue.add_after("a", 1)
    assert queue.idle()
    clock.time = 1.0
    assert not queue.idle()
    queue.get()
    assert not queue.idle()
    queue.done("a")
    assert queue.idle()
    queue.add("a", low=True)
    assert not queue.idle()


def test_a_key_that_is_not_at_work_cannot_be_given_back(queue):
    queue.add("a")
    with pytest.raises(KeyError):
        queue.done("a")


def test_metrics_tell_of_keys_and_times(queue, clock, metrics):
    value = metrics.registry.get_sample_value
    labels = {"name": "q", "controller": "q"}
    assert value("workqueue_adds_total", labels) == 0
    queue.add("a")
    queue.add("a")
    queue.add("b", low=True)
    queue.add_after("c", 10)
    assert value("workqueue_adds_total", labels) == 2
    assert value("workqueue_depth", labels | {"priority": "0"}) == 1
    assert value("workqueue_depth", labels | {"priority": "-100"}) == 1
    clock.time = 3.0
    queue.get()
    queue.retry("a")
    clock.time = 5.0
    queue.get()
    assert queue.working() == [2, 0]
    assert value("workqueue_unfinished_work_seconds", labels) == 2
    assert value("workqueue_longest_running_processor_seconds", labels) == 2
    queue.done("a")
    assert value("workqueue_retries_total", labels) == 1
    assert value("workqueue_queue_duration_seconds_sum", labels) == 3 + 5
    assert value("workqueue_work_duration_seconds_sum", labels) == 2
