"""What the controller as a whole owes its users and the server, one promise at a time."""

from itertools import pairwise

import pytest

from genericjob.api.names import CONDITION_TYPES, EPOCH_ANNOTATION, MANAGER
from genericjob.jobs import applying
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import EVENTS, NAMESPACES, RAW_PODS, RAW_SERVICES, Key
from sim.jobs import NAMESPACE, RAW_JOBS, Cluster
from sim.node import FOREVER, Program
from sim.scenarios import TRAIN, ranks

FORBIDDEN = ApiError(403, "Forbidden", "exceeded quota")
WEBHOOK = ApiError(500, "InternalError", "failed calling webhook: no endpoints available", unknown=True)


def forever(seed=1):
    return Cluster(seed, ranks(other=FOREVER))


def initialized(cluster, name="train"):
    status = cluster.api.get(RAW_JOBS, Key(NAMESPACE, name)).get("status") or {}
    return next((each for each in status.get("conditions", ()) if each["type"] == "Initialized"), {})


def ended(cluster, name):
    return any(pod["metadata"]["name"] == name and pod["status"]["phase"] == "Succeeded" for pod in cluster.api.list(RAW_PODS).items)


def moments(cluster, what):
    """When something stands in the trace, in virtual seconds."""
    return [float(line.split()[1]) for line in cluster.stepped.trace if what in line]


def test_an_end_that_was_seen_counts_although_the_pod_is_deleted_before_it_could_be_stored():
    for seed in range(10):
        with Cluster(seed, ranks(worker_0=Program(0.5), other=FOREVER)) as cluster:
            cluster.controller()
            cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
            cluster.stepped.reach(lambda cluster=cluster: ended(cluster, "train-worker-0"))
            cluster.stepped.run()  # the controller hears of it; its status may wait for a second to be over
            cluster.delete_pod("train-worker-0")
            cluster.stepped.advance(60)
            assert cluster.node.table.runs("train-worker-0") == 1
            assert cluster.pods() == ["train-worker-1"]


def see_a_member_of_a_gang_go_while_nobody_looks(first):
    with Cluster(1, ranks(worker_0=first, other=FOREVER)) as cluster:
        controller = cluster.controller()
        cluster.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 1, "scope": "Job"})
        cluster.reach_running()
        controller.crash()
        cluster.stepped.advance(30)
        cluster.delete_pod("train-worker-2")
        cluster.stepped.advance(60)
        cluster.controller()
        cluster.reach(lambda: cluster.status().epoch == 1 and cluster.phase() == "Running")
        assert [cluster.node.table.runs(f"train-worker-{rank}") for rank in range(3)] == [2, 2, 2]


def test_a_member_of_a_gang_that_goes_while_nobody_looks_takes_the_others_along():
    see_a_member_of_a_gang_go_while_nobody_looks(first=FOREVER)


def test_so_does_one_that_goes_while_another_one_ends():
    see_a_member_of_a_gang_go_while_nobody_looks(first=Program(10.0))


def test_what_is_merely_shown_is_written_once_a_second_at_most():
    with Cluster(1, lambda name, before: Program(0.1 * (1 + int(name.rsplit("-", 1)[1])))) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 40}, successRules=[{"worker": [39]}])
        cluster.stepped.reach(lambda: cluster.phase() == "Succeeded")
        times = moments(cluster, ": after replace_status")
        assert len(times) <= 7  # forty ranks end within four seconds, and then the job does
        assert all(later - earlier >= 1 for earlier, later in pairwise(times[:-2]))


def test_a_pod_that_could_not_be_deleted_does_not_wait_for_creates_that_are_refused_at_the_same_time():
    refused = ": refused create pods default/train-worker-1"
    with forever() as cluster:
        cluster.faults.refuse(FORBIDDEN, "create", resource=RAW_PODS, times=10**6, when=lambda call: b"worker-1" in call.body)
        cluster.controller(latency=1.0)
        cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 3})
        cluster.stepped.advance(900)
        before = moments(cluster, refused)
        cluster.stepped.advance(before[-1] + 300 - 0.2 - cluster.stepped.monotonic())
        cluster.faults.refuse(FORBIDDEN, "delete", resource=RAW_PODS)
        cluster.node.kill("train-worker-0", 1)  # its restart is stored in the second in which the next create is due
        cluster.stepped.advance(30)
        assert len(moments(cluster, refused)) == len(before) + 1
        assert len(moments(cluster, ": refused delete pods default/train-worker-0: 403")) == 1
        assert "train-worker-0" not in cluster.pods()


def test_jobs_that_were_there_before_do_not_delay_a_new_one():
    with forever() as cluster:
        for number in range(30):
            cluster.submit(f"old-{number}", types={"worker": 1})
        cluster.controller(workers=1, writers=1)
        cluster.stepped.reach(lambda: len(cluster.pods()) >= 2)
        cluster.submit("new", types={"worker": 1})
        cluster.stepped.reach(lambda: "new-worker-0" in cluster.pods())
        assert len(cluster.pods()) < 15


def test_a_controller_that_does_not_lead_puts_nothing_aside_and_begins_with_everything():
    with forever() as cluster:
        cluster.controller(leads=False)
        (assembly,) = cluster.assemblies
        cluster.stepped.reach(lambda: assembly.synced)
        cluster.submit(types={"worker": 1})
        cluster.stepped.advance(5)
        assert assembly.jobs.values()
        assert assembly.queue.idle()
        assembly.controller.start()
        cluster.stepped.reach(lambda: cluster.pods() == ["train-worker-0"])


@pytest.mark.parametrize("watched", [("default",), ("default", "kube-public"), ("",)])
def test_only_the_namespaces_that_are_watched_are_touched(watched):
    with forever() as cluster:
        cluster.controller(namespaces=watched)
        for namespace in ("default", "kube-public"):
            cluster.submit(namespace=namespace, types={"worker": 1}, service={"ports": [{"port": 80}]})
        cluster.stepped.advance(10)
        found = {pod["metadata"]["namespace"] for pod in cluster.api.list(RAW_PODS).items}
        assert found == ({"default", "kube-public"} if watched == ("",) else set(watched))


@pytest.mark.parametrize(("manager", "pods"), [("example.com/another", []), (MANAGER, ["train-worker-0"])])
def test_a_job_that_another_controller_manages_is_left_alone(manager, pods):
    with forever() as cluster:
        api = cluster.controller()
        cluster.submit(types={"worker": 1}, managedBy=manager)
        cluster.stepped.advance(60)
        assert cluster.pods() == pods
        assert bool(api.writes) is bool(pods)


def test_a_spec_that_cannot_work_is_told_once_and_not_tried():
    with forever() as cluster:
        cluster.controller()
        name = "j" * 60
        cluster.submit(name, types={"worker": 1})
        cluster.stepped.advance(600)
        assert cluster.pods() == []
        assert initialized(cluster, name)["reason"] == "InvalidSpec"
        assert "63 is the most" in initialized(cluster, name)["message"]
        assert len(moments(cluster, ": after replace_status")) == 1
        assert cluster.events() == {"InvalidSpec"}


def test_nothing_is_remembered_of_deleted_pods_that_a_job_with_an_invalid_spec_has_accounted_for():
    name = "j" * 54
    with forever() as cluster:
        cluster.controller()
        cluster.submit(name, types={"worker": 2})
        cluster.reach_phase("Running", name)
        for pod in cluster.pods():
            cluster.api.patch(RAW_PODS, Key(NAMESPACE, pod), {"metadata": {"finalizers": ["example.com/slow"]}})
        cluster.edit(name, runMode={"pause": {"enabled": True}})
        cluster.reach(lambda: all("deletionTimestamp" in pod["metadata"] for pod in cluster.api.list(RAW_PODS).items))
        specs = cluster.api.get(RAW_JOBS, Key(NAMESPACE, name))["spec"]["replicaSpecs"]
        cluster.edit(name, replicaSpecs=[{**specs[0], "type": "workers"}])  # names have one character too many now
        cluster.reach(lambda: initialized(cluster, name)["reason"] == "InvalidSpec")
        for pod in cluster.pods():
            cluster.api.patch(RAW_PODS, Key(NAMESPACE, pod), {"metadata": {"finalizers": None}})
        cluster.stepped.advance(60)
        assert cluster.pods() == []
        assert cluster.assemblies[0].departures.size == 0


@pytest.mark.parametrize("time", ["2026-01-01T08:00:00.123456789+08:00", "0000-01-01T00:00:00Z"])
def test_conditions_of_other_writers_stay_as_they_are_and_cause_no_write(time):
    with Cluster(1, ranks(worker_0=Program(30.0), other=FOREVER)) as cluster:
        controller = cluster.controller()
        cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}], cleanUpPolicy="All")
        cluster.add_condition("QuotaReserved", time=time)  # before the controller has stored anything
        cluster.reach_running()
        cluster.stepped.advance(10)
        before = controller.writes
        cluster.add_condition("example.com/Seen", "Unknown", time=time)
        cluster.add_condition("QuotaReserved", "False", time=time)
        cluster.stepped.advance(10)
        assert controller.writes == before, "7: what others say about a job is no reason to write"
        cluster.pause()
        cluster.reach_phase("Paused")
        cluster.resume()
        cluster.reach_phase("Succeeded")
        found = cluster.api.get(RAW_JOBS, TRAIN)["status"]["conditions"]
        assert [(each["type"], each["status"], each["lastTransitionTime"]) for each in found[6:]] == [
            ("example.com/Seen", "Unknown", time),
            ("QuotaReserved", "False", time),
        ]
        assert {each["observedGeneration"] for each in found[6:]} == {1}
        assert [each["type"] for each in found[:6]] == list(CONDITION_TYPES)


def test_a_status_that_cannot_be_read_is_told_and_nothing_is_run():
    with forever() as cluster:
        cluster.submit(types={"worker": 1})
        cluster.api.patch(RAW_JOBS, TRAIN, {"status": {"tasks": [{"type": "worker", "succeededRanks": "0,"}]}}, subresource="status")
        cluster.controller()
        cluster.stepped.advance(600)
        assert cluster.pods() == []
        assert cluster.events() == {"InvalidSpec"}


def test_a_server_that_fails_for_long_is_shown_and_for_a_moment_is_not():
    with forever() as cluster:
        cluster.faults.refuse(WEBHOOK, "create", resource=RAW_PODS, times=2)
        cluster.controller()
        cluster.submit(types={"worker": 1})
        cluster.stepped.reach(lambda: cluster.phase() == "Running")
        assert "FailedCreate" not in cluster.events()
        cluster.faults.refuse(WEBHOOK, "create", resource=RAW_PODS, times=10**6)
        cluster.submit("second", types={"worker": 1})
        cluster.stepped.advance(120)
        assert initialized(cluster, "second")["message"] == WEBHOOK.message
        assert "FailedCreate" in cluster.events()
        tries = [line for line in cluster.stepped.trace if ": before create pods default/second" in line]
        assert len(tries) < 10


def test_many_ranks_are_created_in_parts_and_an_end_in_between_is_heeded(monkeypatch):
    monkeypatch.setattr(applying, "AT_A_TIME", 10)
    with Cluster(1, ranks(worker_0=Program(0.0, 1), other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 100}, failureRules=[{"worker": [0]}])
        cluster.stepped.reach(lambda: cluster.phase() == "Failed")
        cluster.stepped.advance(60)
        assert len(cluster.pods()) < 60
    with forever() as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 45}, service={"ports": [{"port": 80}]})
        cluster.stepped.reach(lambda: cluster.phase() == "Running")
        assert len(cluster.pods()) == 45
        assert len([line for line in cluster.stepped.trace if ": after create services" in line]) == 45


def test_a_job_that_waits_for_its_predecessor_asks_once_per_pod_that_goes():
    with forever() as cluster:
        api = cluster.controller()
        cluster.submit(types={"worker": 20})
        cluster.stepped.reach(lambda: cluster.phase() == "Running")
        for name in cluster.pods():
            cluster.api.patch(RAW_PODS, Key(NAMESPACE, name), {"metadata": {"finalizers": ["example.com/hold"]}})
        before = api.writes
        cluster.api.delete(RAW_JOBS, TRAIN, propagation="Background")
        cluster.submit(types={"worker": 20})
        cluster.stepped.advance(1)
        for name in cluster.pods():
            cluster.api.patch(RAW_PODS, Key(NAMESPACE, name), {"metadata": {"finalizers": None}})
            cluster.stepped.advance(0.1)
        cluster.stepped.reach(lambda: cluster.phase() == "Running")
        assert api.writes - before < 150  # twenty creates, and a few tries for each pod that goes
        uid = cluster.api.get(RAW_JOBS, TRAIN)["metadata"]["uid"]
        assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in cluster.api.list(RAW_PODS).items} == {uid}


@pytest.mark.parametrize("kind", ["Foo", "GenericJob"])
def test_objects_of_another_namespace_that_name_the_uid_of_a_job_are_none_of_its_own(kind):
    """Whoever may create pods anywhere could end, restart or blind the jobs of others."""
    with forever() as cluster:
        cluster.api.create(NAMESPACES, {"metadata": {"name": "evil"}})
        cluster.controller()
        cluster.submit(types={"worker": 2}, service={"ports": [{"port": 1}]}, failureRules=[{"worker": [0]}])
        cluster.reach_running()
        (pod,) = (each for each in cluster.api.list(RAW_PODS).items if each["metadata"]["name"] == "train-worker-0")
        meta = pod["metadata"]
        owner = {**meta["ownerReferences"][0], "kind": kind, "name": "x"}
        for name, epoch in (("train-worker-0", "0"), ("train-worker-1", "7"), ("x", "9")):
            forged = {"name": name, "labels": meta["labels"], "annotations": {**meta["annotations"], EPOCH_ANNOTATION: epoch}}
            body = {"metadata": {**forged, "ownerReferences": [owner], "finalizers": ["evil.test/hold"]}, "spec": pod["spec"]}
            made = cluster.api.create(RAW_PODS, body, "evil").object
            cluster.node._seen.add(made["metadata"]["uid"])  # no program runs in it: the test says how it ends
            code = {"name": "main", "state": {"terminated": {"exitCode": 1}}}
            status = {"phase": "Failed", "containerStatuses": [code]}
            cluster.api.replace_status(RAW_PODS, Key("evil", name), {**cluster.api.get(RAW_PODS, Key("evil", name)), "status": status})
        service = cluster.api.get(RAW_SERVICES, Key(NAMESPACE, "train-worker-0"))
        shadow = {"name": "train-worker-0", "labels": service["metadata"]["labels"], "ownerReferences": [owner]}
        cluster.api.create(RAW_SERVICES, {"metadata": shadow, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}, "evil")
        cluster.api.delete(RAW_SERVICES, Key(NAMESPACE, "train-worker-0"))
        cluster.stepped.advance(60)
        assert (cluster.phase(), cluster.status().epoch) == ("Running", 0)
        assert [cluster.node.table.runs(f"train-worker-{rank}") for rank in range(2)] == [1, 1]
        assert cluster.api.get(RAW_SERVICES, Key(NAMESPACE, "train-worker-0"))["metadata"]["uid"] != service["metadata"]["uid"]


@pytest.mark.parametrize("code", [404, 408, 410, 429])
def test_creates_that_fail_with_any_code_are_reported_and_become_rarer(code):
    with forever() as cluster:
        error = ApiError(code, "Odd", "a webhook says no", retry_after=1e9)
        cluster.faults.refuse(error, "create", resource=RAW_PODS, times=10**6)
        cluster.controller()
        cluster.submit(types={"worker": 2})
        cluster.stepped.advance(100)
        assert (initialized(cluster)["reason"], initialized(cluster)["message"]) == ("FailedCreate", "a webhook says no")
        assert len(moments(cluster, ": refused create pods")) <= 10


STATUSES = {
    "pausedSeconds": ({"pausedSeconds": 9 * 10**18, "startTime": "2024-01-01T00:00:00Z"}, {"activeDeadlineSeconds": 100}),
    "lastJobRestart": ({"lastJobRestart": "9999-12-31T23:59:59Z", "jobRestartsInARow": 12, "jobRestarts": 12}, {}),
    "completionTime": ({"completionTime": "9999-12-31T23:59:59Z", "phase": "Succeeded"}, {"ttlSecondsAfterFinished": 100}),
}


@pytest.mark.parametrize("field", STATUSES)
def test_numbers_and_times_that_cannot_be_computed_with_leave_a_job_alone(field, caplog):
    status, spec = STATUSES[field]
    with forever() as cluster:
        key = cluster.submit(types={"worker": 1}, **spec)
        cluster.api.replace_status(RAW_JOBS, key, {**cluster.api.get(RAW_JOBS, key), "status": status})
        cluster.controller()
        cluster.stepped.advance(100)
        told = [each["message"] for each in cluster.api.list(EVENTS, NAMESPACE).items if each["reason"] == "InvalidSpec"]
        assert len(told) == 1
        assert "out of range" in told[0]
        assert "unexpected" not in caplog.text
        cluster.submit("other", types={"worker": 1})
        cluster.reach_phase("Running", "other")
