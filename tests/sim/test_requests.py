"""Requests over a network on which everything takes long: what is sent when, and how much time the server gets.

The port is real. Its connections and its clock are simulated: names are resolved late, connections break, the server is busy, credentials
are replaced, the machine is suspended, and in the middle of it the fence shuts. Two things are judged at every send, with the clock of the
moment: a write is sent only while the fence is open, and what the server is granted ends no later than the request's own time.
"""

import re
from random import Random
from types import SimpleNamespace

from genericjob.reconcile.access import Access, Credentials
from genericjob.reconcile.connection import NotAnsweredError, NotSentError
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.resources import CONFIG_MAPS, Key
from genericjob.reconcile.timeouts import CREATE_S

KEY = Key("default", "c")
BODY = {"metadata": {"name": "c"}}
VERBS = {
    "create": lambda api: api.create(CONFIG_MAPS, BODY, "default"),
    "replace": lambda api: api.replace(CONFIG_MAPS, KEY, BODY),
    "replace_status": lambda api: api.replace_status(CONFIG_MAPS, KEY, BODY),
    "patch": lambda api: api.patch(CONFIG_MAPS, KEY, {}),
    "delete": lambda api: api.delete(CONFIG_MAPS, KEY),
    "get": lambda api: api.get(CONFIG_MAPS, KEY),
}
ROUNDED = 1e-6


class Network:
    """A clock, a fence, and connections that take their time."""

    def __init__(self, seed):
        self.random = Random(f"requests {seed}")
        self.now, self.until = 0.0, float("inf")
        self.budget, self.began, self.sent = 0.0, 0.0, 0
        tokens = iter(range(10**6))
        credentials = Credentials(lambda: Access("server.test", 443, authorization=f"Bearer {next(tokens)}", source="the test"))
        self.api = HttpApi(
            credentials,
            timeouts=Timeouts(create=CREATE_S),
            may_write=lambda: self.now < self.until,
            clock=lambda: self.now,
            sleep=self.sleep,
            connect=lambda access, timeout: Connection(self, access, timeout),
        )

    def ask(self, verb):
        """Send a request, and judge how long it took if it was answered."""
        self.began, self.budget = self.now, {"create": CREATE_S, "get": Timeouts().read}.get(verb, Timeouts().write)
        VERBS[verb](self.api)
        assert self.now <= self.began + self.budget + ROUNDED, f"10: a {verb} was answered after {self.now - self.began:g} s"

    def sleep(self, seconds):
        self.now += seconds + (self.random.choice((0.0, 0.0, 1.0, 5.0)) if seconds else 0.0)

    def takes(self, *seconds):
        self.now += self.random.choice(seconds)

    def judge(self, request, method):
        """A request leaves this machine."""
        self.sent += 1
        if method == "GET":
            return
        assert self.now < self.until, f"10: a {method} is sent {self.now - self.until:g} s after the fence has shut"
        granted = int(re.search(rb"[?&]timeout=(\d+)ms ", request)[1]) / 1000
        late = self.now + granted - self.began - self.budget
        assert granted > 0, "10: the server is granted any time"
        assert late <= ROUNDED, f"10: the server may commit a {method} {late:g} s after its time"


class Connection:
    """A connection that is opened, used and broken at the cost of time."""

    def __init__(self, network, access, timeout):
        self.network, self.access, self.requests = network, access, 0
        network.takes(0.0, 0.01, 0.5, 1.0, 3.5, timeout, timeout + 1.0)  # a thread may get its turn late

    def send(self, request, method, deadline):
        network = self.network
        fate = network.random.choice(("answered", "answered", "answered", "busy", "busy", "stranger", "broken", "lost"))
        if fate == "broken" and self.requests:
            raise NotSentError("broken pipe")
        network.judge(request, method)
        self.requests += 1
        if fate == "lost":
            network.now = max(network.now, deadline)
            raise NotAnsweredError("not in time")
        left = deadline - network.now
        network.takes(*(seconds for seconds in (0.0, 0.0, 0.3, 2.0, 12.0) if seconds < left))
        status = {"busy": 429, "stranger": 401}.get(fate, 200)
        headers = {"retry-after": network.random.choice(("1", "2", "3", "10"))} if status == 429 else {}
        return SimpleNamespace(status=status, headers=headers, will_close=False)

    def read(self, reply):
        return b'{"kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"1"}}'

    def has_data(self):
        return False

    def close(self):
        pass

    abort = close


def test_no_write_is_sent_behind_the_fence_and_no_server_is_granted_more_than_is_left():
    sent = answered = 0
    for seed in range(300):
        network = Network(seed)
        network.until = network.random.choice((5.0, 20.0, 60.0))
        for _ in range(20):
            try:
                network.ask(network.random.choice(list(VERBS)))
                answered += 1
            except ApiError:
                network.takes(0.0, 0.5, 3.0)
        sent += network.sent
    assert answered > 1000
    assert sent > answered  # some were sent again
