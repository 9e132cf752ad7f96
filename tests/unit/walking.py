"""A reflector walked through call by call, in one thread and on a clock that only the test moves."""

from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.reflector import Reflector
from genericjob.reconcile.resources import CONFIG_MAPS, Key, partial
from genericjob.reconcile.store import Store

MAPS = partial("", "v1", "configmaps", "ConfigMap")
GONE = ApiError(410, "Expired", "too old resource version")
REFUSED = ApiError(NO_ANSWER, "Unreachable", "connection refused")
CUT = ApiError(NO_ANSWER, "Unreachable", "the watch was cut")


def nothing():
    """Nothing happens."""


class Walk:
    """Time that passes only when the reflector waits or a step says so; chance is always the same."""

    def __init__(self):
        self.time, self.waits = 1000.0, []

    def monotonic(self):
        return self.time

    def random(self):
        return 0.5

    def condition(self):
        return Waiting(self)


class Waiting:
    def __init__(self, walk):
        self.walk = walk

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        pass

    def notify_all(self):
        pass

    def wait(self, timeout):
        self.walk.waits.append(timeout)
        self.walk.time += timeout


class Steps:
    """The API in memory; each list or watch takes the next step of the test, and after the last one the reflector is stopped.

    A step is done when the request comes; if it is an error, or returns one, that is the answer. A step `during` a watch is done while the
    stream is open, and an error that it returns breaks the stream. Streams end when nothing more is ready.
    """

    def __init__(self, api, *steps):
        self.api, self.steps = api, iter(steps)
        self.calls, self.options = [], []
        self.finish = lambda: None

    def list(self, resource, namespace="", *, continue_token="", **options):
        self.calls.append("continue" if continue_token else "list")
        self.options.append(options)
        self._take()
        return self.api.list(resource, namespace, continue_token=continue_token, **options)

    def watch(self, resource, namespace="", *, resource_version="", initial_events=False, **options):
        self.calls.append("watch-list" if initial_events else f"watch {resource_version}")
        self.options.append(options)
        while_open = self._take()
        watch = self.api.watch(resource, namespace, resource_version=resource_version, initial_events=initial_events, **options)
        return Stream(watch, while_open)

    def _take(self):
        step = next(self.steps, self.finish)
        if isinstance(step, during):
            return step.do
        answer = step if isinstance(step, ApiError) else step()
        if answer is not None:
            raise answer
        return nothing


class during:  # noqa: N801 - reads as a word
    def __init__(self, do):
        self.do = do


class Stream:
    def __init__(self, watch, while_open):
        self.watch, self.while_open, self.closed = watch, while_open, False

    def __iter__(self):
        problem = self.while_open()
        for event in self.watch.ready():
            if self.closed:
                return
            yield event
        if problem and not self.closed:
            raise problem

    def close(self):
        self.closed = True

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.close()


class Rig:
    """A reflector of the config maps of the default namespace, and what came of it."""

    def __init__(self, api, *steps, resource=MAPS, **options):
        self.api, self.walk, self.changes, self.metrics = api, Walk(), [], Metrics()
        self.steps = Steps(api, *steps)
        self.store = Store({"name": lambda found: found.name})
        self.reflector = Reflector(
            self.steps,
            resource,
            self.store,
            namespace="default",
            changed=self.changes.append,
            primitives=self.walk,
            metrics=self.metrics.reflector("configmaps"),
            **options,
        )
        self.steps.finish = self.reflector.stop

    def run(self):
        self.reflector.run()

    @property
    def calls(self):
        return self.steps.calls[:-1]  # at the last one nothing was left to do

    @property
    def verbs(self):
        return [call.split()[0] for call in self.calls]

    @property
    def waits(self):
        return self.walk.waits

    @property
    def names(self):
        return sorted(found.name for found in self.store.values())

    def ends(self, reason):
        return self.metrics.registry.get_sample_value("reflector_watches_total", {"resource": "configmaps", "reason": reason})

    def sample(self, name):
        return self.metrics.registry.get_sample_value(name, {"resource": "configmaps"})


def put(api, *names, **meta):
    for name in names:
        api.create(CONFIG_MAPS, {"metadata": {"name": name, **meta}}, "default")


def remove(api, name):
    api.delete(CONFIG_MAPS, Key("default", name))


def touch(api, name):
    api.patch(CONFIG_MAPS, Key("default", name), {"metadata": {"annotations": {"n": api.resource_version}}})


def told(changes):
    """Changes in short: what came, what went, what is different."""
    return [f"{'~' if c.old and c.new else '+' if c.new else '-'}{(c.new or c.old).name}" for c in changes]


def lost_history(api):
    """While nobody watches one goes, one changes, one is made again, one comes; and the server forgets how."""
    remove(api, "goes")
    touch(api, "changes")
    remove(api, "again")
    put(api, "again", "comes")
    api.compact()
