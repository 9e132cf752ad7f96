"""Metrics, under the names that Go controllers use: existing dashboards and alerts go on working.

Every series exists from the start with the value 0: an alert on a rate needs the moment before the first error as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# Else every counter and every histogram brings a series that no Go controller has, and that says when it was born.
disable_created_metrics()  # type: ignore[no-untyped-call]

QUEUE_BUCKETS = tuple(10.0**n for n in range(-8, 4))
"""10 ns to 1,000 s, as client-go has them."""
RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

ReconcileResult = Literal["success", "error", "requeue", "requeue_after", "terminal"]
RECONCILE_LABELS: dict[ReconcileResult, str] = {
    "success": "success",
    "error": "error",
    "requeue": "requeue",
    "requeue_after": "requeue_after",
    "terminal": "error",  # Go counts it among the errors, and once more by itself
}
USUAL_ANSWERS = (("GET", 200), ("POST", 201), ("PUT", 200), ("PATCH", 200), ("DELETE", 200))
WatchEnd = Literal["timeout", "expired", "short", "error"]
WATCH_ENDS: tuple[WatchEnd, ...] = ("timeout", "expired", "short", "error")


class Metrics:
    """All metrics of one process. Components ask for their own part once, and keep it."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._live = _Live()
        self.registry.register(self._live)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._died: list[Callable[[str], None]] = []
        self._answered: dict[tuple[str, int, str], tuple[Counter, Histogram]] = {}
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        queue, kind = ("name", "controller"), ("controller",)
        self._adds = counter("workqueue_adds", "Keys added to the queue.", queue)
        self._retries = counter("workqueue_retries", "Keys added again because their reconcile failed.", queue)
        self._waited = histogram("workqueue_queue_duration_seconds", "How long a key waits.", queue, QUEUE_BUCKETS)
        self._worked = histogram("workqueue_work_duration_seconds", "How long a key is worked on.", queue, QUEUE_BUCKETS)
        self._reconciles = counter("controller_runtime_reconcile", "Reconciles by result.", ("controller", "result"))
        self._errors = counter("controller_runtime_reconcile_errors", "Reconciles that failed.", kind)
        self._terminal = counter("controller_runtime_terminal_reconcile_errors", "Failures that are not retried.", kind)
        self._panics = counter("controller_runtime_reconcile_panics", "Reconciles that raised what nobody expected.", kind)
        self._seconds = histogram("controller_runtime_reconcile_time_seconds", "Time of a reconcile.", kind, RECONCILE_BUCKETS)
        self._workers = gauge("controller_runtime_max_concurrent_reconciles", "Workers.", kind)
        self._active = gauge("controller_runtime_active_workers", "Workers at work.", kind)
        self._requests = counter("rest_client_requests", "Requests to the server.", ("code", "method", "host"))
        self._request = histogram("rest_client_request_duration_seconds", "Time of a request.", ("verb", "host"), REQUEST_BUCKETS)
        self._lists = histogram("reflector_list_duration_seconds", "Time of a whole list.", ("resource",), REQUEST_BUCKETS)
        self._watches = counter("reflector_watches", "Watches that ended, by reason.", ("resource", "reason"))
        self._events = counter("reflector_events", "Events received.", ("resource",))
        self._unreadable = counter("genericjob_unreadable_objects", "Objects received that could not be decoded.", ("resource",))
        self._leader = gauge("leader_election_master_status", "1 while this process leads.", ("name",))
        self._deaths = counter("genericjob_thread_deaths", "Threads that ended by an exception and were started again.", ("thread",))
        self._stale = counter("genericjob_stale_cache_waits", "Reconciles put off because a cache had not seen our own write.", kind)
        self._told = counter("genericjob_events", "Events about objects.", ("fate",))
        for fate in ("sent", "failed", "dropped"):
            self._told.labels(fate)

    def queue(self, name: str) -> "QueueMetrics":
        """Of a queue."""
        return QueueMetrics(self, name)

    def controller(self, name: str, workers: int) -> "ControllerMetrics":
        """Of a controller."""
        return ControllerMetrics(self, name, workers)

    def reflector(self, resource: str) -> "ReflectorMetrics":
        """Of the reflectors of a resource."""
        return ReflectorMetrics(self, resource)

    def requests(self, host: str) -> None:
        """Requests to this server will be counted: the usual answers, and no answer, begin at 0."""
        for method, code in USUAL_ANSWERS:
            self._answer(method, code, host)
            self._answer(method, 0, host)

    def request(self, method: str, code: int, host: str, seconds: float) -> None:
        """One request was answered; code 0 means that no answer came."""
        count, duration = self._answered.get((method, code, host)) or self._answer(method, code, host)
        count.inc()
        duration.observe(seconds)

    def _answer(self, method: str, code: int, host: str) -> tuple[Counter, Histogram]:
        found = self._requests.labels(str(code) if code else "<error>", method, host), self._request.labels(method, host)
        self._answered[method, code, host] = found
        return found

    def leading(self, name: str, leads: bool) -> None:
        """Whether this process leads."""
        self._leader.labels(name).set(leads)

    def thread(self, name: str) -> None:
        """A thread that must not end: its deaths begin at 0."""
        self._deaths.labels(name)

    def thread_died(self, name: str) -> None:
        """A thread ended by an exception, and will be started again."""
        self._deaths.labels(name).inc()
        for tell in self._died:
            tell(name)

    def on_thread_death(self, tell: Callable[[str], None]) -> None:
        """Tell this one, too, which thread has died."""
        self._died.append(tell)

    def longest_silence(self) -> Mapping[str, float]:
        """Return by queue for how many seconds a key at work has made no progress, at most."""
        return {name: max(found.silent(), default=0.0) for name, found in list(self._live.queues.items())}

    def page(self) -> bytes:
        """Everything, in the text format that Prometheus reads."""
        return generate_latest(self.registry)

    def event(self, fate: Literal["sent", "failed", "dropped"]) -> None:
        """What became of an event about an object."""
        self._told.labels(fate).inc()

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)


class QueueMetrics:
    """Of one queue."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics, self._name = metrics, name
        self.added: Callable[[], None] = metrics._adds.labels(name, name).inc
        self.retried: Callable[[], None] = metrics._retries.labels(name, name).inc
        self.waited: Callable[[float], None] = metrics._waited.labels(name, name).observe
        self.worked: Callable[[float], None] = metrics._worked.labels(name, name).observe

    def follow(
        self, depth: Callable[[], Mapping[str, int]], working: Callable[[], Iterable[float]], silent: Callable[[], Iterable[float]]
    ) -> None:
        """Ask these when metrics are read: keys waiting by priority; of each key at work since when it is, and when it last got on."""
        self._metrics._live.queues[self._name] = _Questions(depth, working, silent)


class ControllerMetrics:
    """Of one controller."""

    def __init__(self, metrics: Metrics, name: str, workers: int) -> None:
        self._results = {result: metrics._reconciles.labels(name, label) for result, label in RECONCILE_LABELS.items()}
        self._errors, self._terminal = metrics._errors.labels(name), metrics._terminal.labels(name)
        self._seconds = metrics._seconds.labels(name)
        self.panicked: Callable[[], None] = metrics._panics.labels(name).inc
        self.stale: Callable[[], None] = metrics._stale.labels(name).inc
        self.active = metrics._active.labels(name)
        metrics._workers.labels(name).set(workers)

    def finished(self, result: ReconcileResult, seconds: float) -> None:
        """A reconcile came to its end."""
        self._results[result].inc()
        self._seconds.observe(seconds)
        if result in ("error", "terminal"):
            self._errors.inc()
        if result == "terminal":
            self._terminal.inc()


class ReflectorMetrics:
    """Of the reflectors of one resource."""

    def __init__(self, metrics: Metrics, resource: str) -> None:
        self._metrics, self._resource = metrics, resource
        self._ends = {reason: metrics._watches.labels(resource, reason) for reason in WATCH_ENDS}
        self.listed: Callable[[float], None] = metrics._lists.labels(resource).observe
        self.event: Callable[[], None] = metrics._events.labels(resource).inc
        self.unreadable: Callable[[], None] = metrics._unreadable.labels(resource).inc

    def watch_ended(self, reason: WatchEnd) -> None:
        """A watch is over, and why."""
        self._ends[reason].inc()

    def follow(self, size: Callable[[], int], silence: Callable[[], float]) -> None:
        """Ask these when metrics are read: objects in the store, seconds since the last sign of life."""
        self._metrics._live.stores.append((self._resource, size, silence))


class _Questions(NamedTuple):
    """What is asked of a queue."""

    depth: Callable[[], Mapping[str, int]]
    working: Callable[[], Iterable[float]]
    silent: Callable[[], Iterable[float]]


class _Live(Collector):
    """What is only known at the moment of asking."""

    def __init__(self) -> None:
        self.queues: dict[str, _Questions] = {}
        self.stores: list[tuple[str, Callable[[], int], Callable[[], float]]] = []

    def collect(self) -> Iterator[Metric]:
        labels = ("name", "controller")
        depth = GaugeMetricFamily("workqueue_depth", "Keys waiting.", labels=(*labels, "priority"))
        unfinished = GaugeMetricFamily("workqueue_unfinished_work_seconds", "Time spent on keys at work, in sum.", labels=labels)
        longest = GaugeMetricFamily("workqueue_longest_running_processor_seconds", "The longest of them.", labels=labels)
        for name, queue in list(self.queues.items()):
            for priority, count in queue.depth().items():
                depth.add_metric((name, name, priority), count)
            times = list(queue.working())
            unfinished.add_metric((name, name), sum(times))
            longest.add_metric((name, name), max(times, default=0))
        size = GaugeMetricFamily("genericjob_store_objects", "Objects in a cache.", labels=("resource",))
        silence = GaugeMetricFamily("genericjob_watch_silence_seconds", "Since the last event, bookmark or list.", labels=("resource",))
        sizes: dict[str, int] = {}
        silences: dict[str, float] = {}
        for resource, objects, silent in list(self.stores):
            sizes[resource] = sizes.get(resource, 0) + objects()
            silences[resource] = max(silences.get(resource, 0.0), silent())
        for resource in sizes:
            size.add_metric((resource,), sizes[resource])
            silence.add_metric((resource,), silences[resource])
        yield from (depth, unfinished, longest, size, silence)
