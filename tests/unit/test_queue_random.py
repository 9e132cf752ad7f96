"""The work queue against a model that keeps plain lists, and with many workers: under the seeded scheduler and in real threads."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.queue import HANGING_S, Queue
from sim.scheduler import Stepped
from unit.alone import Alone, waits

KEYS = st.sampled_from("abcde")
SECONDS = st.sampled_from([0.0, 0.005, 0.01, 1.0, 5.0, 20.0, 31.0])
FIRST, LIMIT, AGEING = 0.005, 20.0, 30.0
GROUPS = dict(zip("abcde", "xxxyz", strict=True))
SHARE = 2


class AgainstModel(RuleBasedStateMachine):
    """The model searches all it knows whenever it is asked: no heap, no timers that were overtaken, no sweeping."""

    def __init__(self):
        super().__init__()
        self.clock = Alone()
        self.queue = Queue(
            primitives=self.clock,
            metrics=Metrics().queue("q"),
            first=FIRST,
            limit=LIMIT,
            ageing=AGEING,
            group=GROUPS.__getitem__,
            share=SHARE,
        )
        self.normal, self.low = [], []  # (key, since)
        self.later = {}  # key: (ready, low, when it was asked for)
        self.at_work, self.again = {}, {}  # key: low; key: (ready, low)
        self.taken = {}  # key: when it was taken to work
        self.rested, self.failed, self.unfinished = {}, Counter(), set()
        self.turns = {False: [], True: []}  # groups with keys that are ready, by priority
        self.turn_of_low = self.closed = self.drained = False
        self.asked = 0

    # what the model thinks

    def put(self, key, ready, low):
        if self.closed:
            return
        if key in self.at_work:
            known = self.again.get(key, (ready, low))
            self.again[key] = min(known[0], ready), known[1] and low
            return
        low = low or key in self.unfinished
        if key in dict(self.low):
            if not low:
                since = dict(self.low)[key]
                self.low = [entry for entry in self.low if entry[0] != key]
                self.make_ready(key, since, low=False)
        elif key not in dict(self.normal):
            known = self.later.pop(key, None)
            was, order = (known[0], known[2]) if known else (None, None)
            ready, low = (min(known[0], ready), known[1] and low) if known else (ready, low)
            ready = max(ready, self.rested.get(key, 0))
            if ready <= self.clock.time:
                self.make_ready(key, ready, low=low)
            else:
                self.asked += 1
                self.later[key] = ready, low, order if ready == was else self.asked

    def ripen(self):
        for key, (ready, low, _) in sorted(self.later.items(), key=lambda entry: (entry[1][0], entry[1][2])):
            if ready <= self.clock.time:
                del self.later[key]
                self.make_ready(key, ready, low=low)

    def make_ready(self, key, since, *, low):
        (self.low if low else self.normal).append((key, since))
        self.order(low)

    def order(self, low):
        """Groups that have keys, those that are new at the end."""
        groups = [GROUPS[key] for key, _ in (self.low if low else self.normal)]
        self.turns[low] = [group for group in self.turns[low] if group in groups]
        self.turns[low] += [group for group in dict.fromkeys(groups) if group not in self.turns[low]]

    def next(self, low):
        self.order(low)
        if low and sum(was_low and self.clock.time - self.taken[key] < HANGING_S for key, was_low in self.at_work.items()) >= SHARE:
            return None
        busy = Counter(GROUPS[key] for key in self.at_work)
        entries = [entry for entry in (self.low if low else self.normal) if busy[GROUPS[entry[0]]] < SHARE]
        return min(entries, key=lambda entry: self.turns[low].index(GROUPS[entry[0]]), default=None)

    def expected(self):
        self.ripen()
        normal, entry = self.next(False), self.next(True)
        low = entry and (not normal or (self.turn_of_low and self.clock.time - entry[1] >= AGEING))
        low, entry = bool(low), entry if low else normal
        (self.low if low else self.normal).remove(entry)
        self.turns[low].remove(GROUPS[entry[0]])
        self.order(low)
        key = entry[0]
        self.turn_of_low = not low
        self.at_work[key] = low
        self.taken[key] = self.clock.time
        return key

    # what happens to both

    @rule(seconds=SECONDS)
    def time_passes(self, seconds):
        self.clock.time += seconds

    @rule(key=KEYS, low=st.booleans())
    def add(self, key, low):
        self.put(key, self.clock.time, low)
        self.queue.add(key, low=low)

    @rule(key=KEYS, seconds=SECONDS, low=st.booleans())
    def add_after(self, key, seconds, low):
        self.put(key, self.clock.time + seconds, low)
        self.queue.add_after(key, seconds, low=low)

    @precondition(lambda self: self.at_work)
    @rule(data=st.data(), at_least=st.sampled_from([0.0, 3.0]))
    def retry(self, data, at_least):
        key = data.draw(st.sampled_from(sorted(self.at_work)))
        wait = max(at_least, min(LIMIT, FIRST * 2 ** self.failed[key]))
        self.failed[key] += 1
        self.put(key, self.clock.time + wait, self.at_work[key])
        self.queue.retry(key, at_least=at_least)

    @rule(key=KEYS)
    def forget(self, key):
        del self.failed[key]
        self.queue.forget(key)

    @rule()
    def get(self):
        self.ripen()
        if self.next(False) or self.next(True):
            expected = self.expected()
            assert self.queue.get() == expected
        elif self.closed:
            assert self.queue.get() is None
        else:
            self.queue_waits()

    def queue_waits(self):
        """Until the next timer, or for less: a timer that was overtaken costs a look at the clock, no more."""
        wait = waits(self.queue)
        if self.later:
            assert 0 < wait <= min(ready for ready, _, _ in self.later.values()) - self.clock.time

    @precondition(lambda self: self.at_work)
    @rule(data=st.data(), rest=st.sampled_from([0.0, 0.0, 1.0, 10.0]), unfinished=st.booleans())
    def done(self, data, rest, unfinished):
        self.finish(data.draw(st.sampled_from(sorted(self.at_work))), rest, unfinished)

    def finish(self, key, rest=0.0, unfinished=False):
        del self.at_work[key]
        (self.unfinished.add if unfinished else self.unfinished.discard)(key)
        if rest:
            self.rested[key] = self.clock.time + rest
        again = self.again.pop(key, None)
        if again and not self.closed:
            self.put(key, *again)
        elif again and self.drained and again[0] <= self.clock.time:
            self.make_ready(key, again[0], low=again[1])
        self.queue.done(key, rest=rest, unfinished=unfinished)

    @precondition(lambda self: not self.closed and self.asked > 3)
    @rule(drain=st.booleans())
    def shut_down(self, drain):
        self.ripen()
        if not drain:
            self.normal, self.low = [], []
        self.later = {}
        self.closed, self.drained = True, drain
        self.queue.shut_down(drain=drain)

    @invariant()
    def they_agree(self):
        due = any(ready <= self.clock.time for ready, _, _ in self.later.values())
        assert self.queue.idle() == (not (self.normal or self.low or self.at_work or due))
        assert len(self.queue.working()) == len(self.queue.silent()) == len(self.at_work)
        assert self.queue.crowded() == bool(self.normal or self.low)
        assert all(self.queue.failures(key) == self.failed[key] for key in "abcde")

    def teardown(self):
        """Nothing is lost: in the end whatever was asked for has been handed out."""
        self.clock.time += 1000
        while self.at_work or self.normal or self.low or self.later:
            for key in sorted(self.at_work):
                self.finish(key)
            self.ripen()
            if self.normal or self.low:
                self.get()
        assert self.queue.idle()


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=60, stateful_step_count=60)


# ------------------------------------------------------------------------------------------------ many workers


@pytest.fixture
def stepped_process():
    with Stepped(1) as stepped:
        yield stepped, stepped.process("p")


def playing(seed, *, workers, keys, adds, work):
    """Workers and producers on one queue, some of whose keys fail and some of which rest."""
    with Stepped(seed) as stepped:
        process = stepped.process("p")
        queue = Queue(primitives=process, metrics=Metrics().queue("q"))
        wanted, seen, in_hand = Counter(), {}, set()

        def working():
            while (key := queue.get()) is not None:
                assert key not in in_hand
                in_hand.add(key)
                version = wanted[key]
                process.sleep(work * process.random())
                if process.random() < 0.2:
                    queue.retry(key)
                else:
                    queue.forget(key)
                seen[key] = version
                in_hand.remove(key)
                queue.done(key, rest=process.random() - 0.5)

        def producing():
            for _ in range(adds):
                key = int(process.random() * keys)
                wanted[key] += 1
                if process.random() < 0.5:
                    queue.add(key, low=process.random() < 0.5)
                else:
                    queue.add_after(key, process.random())
                process.sleep(process.random() - 0.5)

        for _ in range(workers):
            process.start("works", working)
        producers = [process.start("produces", producing) for _ in range(2)]
        stepped.reach(lambda: not any(thread.alive() for thread in producers))
        stepped.reach(lambda: seen == wanted, within=100)
        queue.shut_down(drain=True)
        stepped.advance(10)
        assert process.threads == []


def test_no_key_is_in_two_hands_and_no_change_is_lost_whatever_the_order():
    for seed in range(60):
        playing(seed, workers=1 + seed % 4, keys=4, adds=15, work=0.3)


def test_every_timer_is_kept_to_the_moment_while_a_worker_is_free():
    for seed in range(60):
        with Stepped(seed) as stepped:
            process = stepped.process("p")
            queue, late = Queue(primitives=process, metrics=Metrics().queue("q")), []
            due = {}

            def working(process=process, queue=queue, late=late, due=due):
                while (key := queue.get()) is not None:
                    late.append(process.monotonic() - due[key])
                    process.sleep(3)
                    queue.done(key)

            def producing(process=process, queue=queue, due=due):
                for key in range(12):
                    due[key] = 1 + int(process.monotonic() + process.random() * 5)  # often several at a time
                    queue.add_after(key, due[key] - process.monotonic())
                    process.sleep(process.random())

            for _ in range(12):
                process.start("works", working)
            process.start("produces", producing)
            stepped.advance(100)
            assert len(late) == 12
            assert max(late) < 1e-6


def test_a_timer_wakes_one_worker_and_not_all(stepped_process):
    stepped, process = stepped_process
    waited = []

    class Counting:
        monotonic = process.monotonic

        def condition(self):
            condition = process.condition()
            wait = condition.wait
            condition.wait = lambda timeout=None: (waited.append(timeout), wait(timeout))[1]
            return condition

    queue, served = Queue(primitives=Counting(), metrics=Metrics().queue("q")), []

    def working():
        while (key := queue.get()) is not None:
            served.append(key)
            queue.done(key)

    for _ in range(8):
        process.start("works", working)
    stepped.run()
    waited.clear()
    for n in range(100):
        queue.add_after(n, 1 + n)
        stepped.run()
    assert len(waited) == 1  # for the first of the timers
    stepped.advance(200)
    assert served == list(range(100))
    assert len(waited) < 250  # and not 800


def test_workers_go_home_when_the_queue_is_shut_down(stepped_process):
    stepped, process = stepped_process
    queue = Queue(primitives=process, metrics=Metrics().queue("q"))
    for _ in range(5):
        process.start("works", queue.get)
    queue.add_after("a", 100)
    stepped.run()
    assert len(process.threads) == 5
    queue.shut_down(drain=True)
    stepped.run()
    assert process.threads == []


def test_real_threads_lose_nothing():
    system = System()
    queue = Queue(primitives=system, metrics=Metrics().queue("q"))
    wanted, seen = Counter(), {}
    in_hand = set()
    wrong = []

    def working():
        while (key := queue.get()) is not None:
            if key in in_hand:
                wrong.append(key)
            in_hand.add(key)
            seen[key] = wanted[key]
            in_hand.remove(key)
            queue.done(key)

    def producing(mine):
        for n in range(3000):
            wanted[mine, n % 7] += 1
            if n % 3:
                queue.add((mine, n % 7), low=bool(n % 2))
            else:
                queue.add_after((mine, n % 7), 0.0001)

    workers = [system.start("works", working) for _ in range(4)]
    producers = [system.start("produces", lambda mine=mine: producing(mine)) for mine in range(2)]
    assert all(thread.join(30) for thread in producers)
    for key in wanted:
        queue.add(key)
    queue.shut_down(drain=True)
    assert all(thread.join(30) for thread in workers)
    assert wrong == []
    assert seen == wanted
