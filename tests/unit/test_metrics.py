"""The metrics page, as a scraper sees it."""

import gc

import pytest
from prometheus_client.parser import text_string_to_metric_families

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.resources import CONFIG_MAPS, Key
from harness.scripted import ScriptedServer, answer, hang_up, say_nothing, stream


@pytest.fixture
def metrics():
    return Metrics()


def scraped(metrics):
    """All samples: (name, labels) to value."""
    families = text_string_to_metric_families(metrics.page().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(metrics, name, /, **labels):
    return scraped(metrics).get((name, tuple(sorted(labels.items()))))


def names(metrics):
    return {name for name, _ in scraped(metrics)}


def test_the_process_itself_is_measured(metrics):
    gc.collect()
    found = names(metrics)
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"} <= found
    assert {"python_gc_collections_total", "python_gc_objects_collected_total"} <= found
    assert value(metrics, "process_resident_memory_bytes") > 1_000_000


def test_a_queue_has_the_series_of_go_all_zero_from_the_start(metrics):
    metrics.queue("jobs").follow(lambda: {"0": 0, "-100": 0}, list, list)
    labels = {"name": "jobs", "controller": "jobs"}
    for name in (
        *("workqueue_adds_total", "workqueue_retries_total"),
        *("workqueue_queue_duration_seconds_count", "workqueue_work_duration_seconds_count"),
        *("workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds"),
    ):
        assert value(metrics, name, **labels) == 0, name
    assert value(metrics, "workqueue_depth", **labels, priority="-100") == 0
    assert value(metrics, "workqueue_queue_duration_seconds_bucket", **labels, le="1e-08") == 0
    assert value(metrics, "workqueue_work_duration_seconds_bucket", **labels, le="1000.0") == 0


def test_a_queue_is_asked_when_somebody_looks(metrics):
    working, silent = [3.0, 4.0], [0.5, 2.0]
    queue = metrics.queue("jobs")
    queue.follow(lambda: {"0": 7}, lambda: working, lambda: silent)
    queue.added()
    queue.retried()
    queue.waited(0.5)
    queue.worked(0.5)
    labels = {"name": "jobs", "controller": "jobs"}
    assert value(metrics, "workqueue_depth", **labels, priority="0") == 7
    assert value(metrics, "workqueue_unfinished_work_seconds", **labels) == 7
    assert value(metrics, "workqueue_longest_running_processor_seconds", **labels) == 4
    assert value(metrics, "workqueue_adds_total", **labels) == value(metrics, "workqueue_retries_total", **labels) == 1
    assert metrics.longest_silence() == {"jobs": 2.0}
    silent.clear()
    assert metrics.longest_silence() == {"jobs": 0.0}


def test_a_controller_has_the_series_of_go_all_zero_from_the_start(metrics):
    metrics.controller("genericjob", 8)
    for result in ("success", "error", "requeue", "requeue_after"):
        assert value(metrics, "controller_runtime_reconcile_total", controller="genericjob", result=result) == 0
    for name in (
        *("controller_runtime_reconcile_errors_total", "controller_runtime_terminal_reconcile_errors_total"),
        *("controller_runtime_reconcile_panics_total", "controller_runtime_active_workers"),
        *("controller_runtime_reconcile_time_seconds_count", "genericjob_stale_cache_waits_total"),
    ):
        assert value(metrics, name, controller="genericjob") == 0, name
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller="genericjob") == 8
    assert value(metrics, "controller_runtime_reconcile_time_seconds_bucket", controller="genericjob", le="0.005") == 0


@pytest.mark.parametrize(
    ("result", "label", "errors", "terminal"),
    [("success", "success", 0, 0), ("requeue_after", "requeue_after", 0, 0), ("error", "error", 1, 0), ("terminal", "error", 1, 1)],
)
def test_results_are_counted_as_go_counts_them(metrics, result, label, errors, terminal):
    metrics.controller("g", 1).finished(result, 0.1)
    assert value(metrics, "controller_runtime_reconcile_total", controller="g", result=label) == 1
    assert value(metrics, "controller_runtime_reconcile_errors_total", controller="g") == errors
    assert value(metrics, "controller_runtime_terminal_reconcile_errors_total", controller="g") == terminal
    assert value(metrics, "controller_runtime_reconcile_time_seconds_count", controller="g") == 1
    assert value(metrics, "controller_runtime_reconcile_total", controller="g", result="terminal") is None


def test_requests_to_a_known_server_begin_at_zero(metrics):
    metrics.requests("10.0.0.1:443")
    for method, code in (("GET", "200"), ("POST", "201"), ("PUT", "200"), ("DELETE", "200"), ("PATCH", "200"), ("GET", "<error>")):
        assert value(metrics, "rest_client_requests_total", method=method, code=code, host="10.0.0.1:443") == 0
    assert value(metrics, "rest_client_request_duration_seconds_count", verb="POST", host="10.0.0.1:443") == 0


def test_requests_are_counted_by_their_answer(metrics):
    for code in (201, 201, 409, 0):
        metrics.request("POST", code, "h:1", 0.01)
    found = {code: value(metrics, "rest_client_requests_total", method="POST", code=code, host="h:1") for code in ("201", "409", "<error>")}
    assert found == {"201": 2, "409": 1, "<error>": 1}
    assert value(metrics, "rest_client_request_duration_seconds_count", verb="POST", host="h:1") == 4


def test_the_port_tells_of_each_request_once_whatever_became_of_it(metrics):
    told = []

    def observe(method, code, host, seconds):
        told.append((method, code))
        assert host == f"127.0.0.1:{port}"
        assert seconds >= 0
        metrics.request(method, code, host, seconds)

    stored = {"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}}
    busy = answer(429, **{"Retry-After": "0"})
    with ScriptedServer(answer(201, stored), busy, answer(200, stored), answer(404), hang_up, say_nothing, stream()) as server:
        port = server.port
        api = HttpApi(server.credentials(), timeouts=Timeouts(write=0.2), observe=observe)
        api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "ns")
        api.get(CONFIG_MAPS, Key("ns", "a"))
        for call in (lambda: api.get(CONFIG_MAPS, Key("ns", "b")), *(lambda: api.delete(CONFIG_MAPS, Key("ns", "a")),) * 2):
            with pytest.raises(ApiError):
                call()
        api.watch(CONFIG_MAPS, "ns").close()
    assert told == [("POST", 201), ("GET", 429), ("GET", 200), ("GET", 404), ("DELETE", 0), ("DELETE", 0), ("GET", 200)]
    assert value(metrics, "rest_client_requests_total", method="DELETE", code="<error>", host=f"127.0.0.1:{port}") == 2


def test_reflectors_events_threads_and_leadership_begin_at_zero(metrics):
    metrics.reflector("pods").follow(lambda: 0, lambda: 0.0)
    metrics.leading("genericjob", False)
    metrics.thread("informer pods")
    for reason in ("timeout", "expired", "short", "error"):
        assert value(metrics, "reflector_watches_total", resource="pods", reason=reason) == 0
    for fate in ("sent", "failed", "dropped"):
        assert value(metrics, "genericjob_events_total", fate=fate) == 0
    assert value(metrics, "reflector_list_duration_seconds_count", resource="pods") == 0
    assert value(metrics, "reflector_events_total", resource="pods") == 0
    assert value(metrics, "leader_election_master_status", name="genericjob") == 0
    assert value(metrics, "genericjob_thread_deaths_total", thread="informer pods") == 0
    assert value(metrics, "genericjob_store_objects", resource="pods") == 0


def test_several_stores_of_a_resource_are_told_as_one(metrics):
    reflector = metrics.reflector("pods")
    reflector.follow(lambda: 3, lambda: 9.0)
    reflector.follow(lambda: 4, lambda: 1.0)
    assert value(metrics, "genericjob_store_objects", resource="pods") == 7
    assert value(metrics, "genericjob_watch_silence_seconds", resource="pods") == 9


def test_a_death_is_counted_and_told_to_those_who_asked(metrics):
    told = []
    metrics.on_thread_death(told.append)
    metrics.thread_died("recorder")
    assert told == ["recorder"]
    assert value(metrics, "genericjob_thread_deaths_total", thread="recorder") == 1


def test_there_are_no_series_that_no_go_controller_has(metrics):
    metrics.queue("jobs").added()
    metrics.controller("jobs", 1)
    assert not [name for name in names(metrics) if name.endswith("_created")]


def test_two_processes_in_one_interpreter_do_not_share_metrics(metrics):
    metrics.queue("jobs").added()
    assert ("workqueue_adds_total", (("controller", "jobs"), ("name", "jobs"))) not in scraped(Metrics())
