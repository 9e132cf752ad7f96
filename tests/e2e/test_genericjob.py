"""GenericJobs from their creation to their end: kubectl, a real control plane, and the controller with the rights that are shipped."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.jobs import a_job, counts, marks, replicas
from genericjob.reconcile.resources import RAW_PODS, raw
from harness.clusters import eventually
from harness.controllers import USER

ENDPOINT_SLICES = raw("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")

# The seed document's first example, as it stands there.
EXAMPLE = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: generic-example
spec:
  successRules:
    - { "worker": [0] }
  failureRules:
    - { "worker": [0] }
    - { "worker": [1] }
  replicaSpecs:
    - type: worker
      replicas: 4
      template:
        spec:
          containers:
            - command:
                - sleep
                - '365'
              image: nginx:latest
              name: sleep
"""

CLUSTER = ",".join(f'"$(service.worker[{rank}].host):$(service.port[http])"' for rank in range(4))
TF_CONFIG = f'{{"task":{{"type":"$(type)","index":$(rank)}},"cluster":{{"worker":[{CLUSTER}]}}}}'
# And the one of TensorFlow, with the service that it needs.
TENSORFLOW = f"""\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: generic-example
spec:
  service:
    ports:
      - name: http
        port: 2222
  replicaSpecs:
    - type: worker
      replicas: 4
      template:
        spec:
          containers:
            - command:
                - python
                - /mnt/training.py
              image: tensorflow/tensorflow:2.11.0
              name: tensorflow
              env:
                - name: TF_CONFIG
                  value: '{TF_CONFIG}'
"""


@pytest.fixture
def apply(kubectl, team):
    """Have kubectl create a job."""

    def applied(text):
        kubectl("apply", "--filename=-", input=text)
        return team.find(text.split("name: ", 1)[1].split()[0])

    return applied


def addresses(team):
    """What names lead to, as cluster DNS would answer."""
    slices = team.server.list(ENDPOINT_SLICES, team.namespace).items
    return {
        each["metadata"]["labels"]["kubernetes.io/service-name"]: each["endpoints"][0]["addresses"]
        for each in slices
        if len(each["endpoints"] or ()) == 1
    }


def statuses(job):
    return {type: status for type, (status, _, _) in job.conditions.items()}


# ------------------------------------------------------------------------------------------------ the examples


def test_the_first_example_succeeds_when_rank_0_ends_well(apply, kubectl):
    job = apply(EXAMPLE)
    pods = job.has_pods(4)
    job.run(0, 1, 2, 3)
    job.becomes("Running")
    job.finish(0)

    status = job.becomes("Succeeded")
    assert (status["ready"], status["aggregate"]) == ("4/4", counts(running=3, succeeded=1))
    assert job.conditions["Completed"] == ("True", "Succeeded", "The job has finished successfully.")
    assert {type for type, (status, _, _) in job.conditions.items() if status == "True"} == {"Initialized", "Completed"}
    (task,) = status["tasks"]
    assert (task["type"], task["restartCount"], task["succeededRanks"], task.get("failedRanks")) == ("worker", 0, "0", None)
    assert [(each["name"], each["phase"], each["uid"]) for each in task["replicas"]] == [
        (f"generic-example-worker-{rank}", phase, pods[f"generic-example-worker-{rank}"]["metadata"]["uid"])
        for rank, phase in enumerate(["Succeeded", "Running", "Running", "Running"])
    ]
    assert task["replicas"][0]["containers"] == [{"name": "sleep", "state": "Terminated", "exitCode": 0, "reason": "Completed"}]
    assert status["completionTime"] >= status["startTime"]

    head, row = kubectl("get", "gj").splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert row.split()[:-1] == ["generic-example", "Succeeded", "4/4", "0"]
    assert [pod["status"]["phase"] for pod in job.has_pods(4).values()].count("Running") == 3  # the others are left alone


def test_a_second_copy_fails_when_rank_1_fails(apply):
    job = apply(EXAMPLE.replace("generic-example", "second-copy"))
    job.has_pods(4)
    job.run(0, 1, 2, 3)
    job.finish(2, 5)  # no rule speaks of it
    eventually(lambda: job.task().get("failedRanks") == "2")
    assert job.phase == "Running"
    job.finish(1, 3)

    status = job.becomes("Failed")
    told = ("Failed", 'The job is failed with rule: {"worker":[1]}')
    assert job.conditions["Failed"] == ("True", *told)
    assert job.conditions["Completed"] == ("False", *told)
    assert job.conditions["Running"] == ("False", *told)
    assert job.conditions["ReplicaFailure"] == ("True", "ErrorInPod", "Pod[second-copy-worker-1] exited with error code 3")  # the first
    assert job.task()["failedRanks"] == "1-2"
    assert (status["ready"], status["aggregate"]) == ("2/4", counts(running=2, failed=2))


def test_every_rank_gets_its_own_tf_config(apply):
    job = apply(TENSORFLOW)
    pods = job.has_pods(4)
    hosts = ",".join(f'"generic-example-worker-{rank}:2222"' for rank in range(4))
    for rank in range(4):
        (container,) = pods[f"generic-example-worker-{rank}"]["spec"]["containers"]
        told = f'{{"task":{{"type":"worker","index":{rank}}},"cluster":{{"worker":[{hosts}]}}}}'
        assert container["env"] == [{"name": "TF_CONFIG", "value": told}]
        assert json.loads(told)


def test_every_rank_is_found_under_its_own_name(apply, team):
    job = apply(TENSORFLOW)
    names = [f"generic-example-worker-{rank}" for rank in range(4)]
    job.has_pods(4)
    services = job.has_services(4)
    assert sorted(services) == names
    for name in names:
        spec = services[name]["spec"]
        assert spec["clusterIP"] == "None"
        assert spec["publishNotReadyAddresses"] is True
        assert spec["selector"] == {"genericjob": "generic-example", "genericjob-replica": name}
        assert spec["ports"] == [{"name": "http", "port": 2222, "protocol": "TCP", "targetPort": 2222}]

    job.run(*range(4))
    ips = {name: [pod["status"]["podIP"]] for name, pod in job.pods.items()}
    eventually(lambda: addresses(team) == ips)


def test_ports_that_lead_elsewhere_need_a_service_with_an_address(team):
    ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "metrics", "port": 9090}]
    job = team.submit(a_job("served", replicas(2, args=["$(service.port[http])", "$(service.port[metrics])"]), service={"ports": ports}))
    pods = job.has_pods(2)
    assert pods["served-worker-1"]["spec"]["containers"][0]["args"] == ["80", "9090"]
    for service in job.has_services(2).values():
        spec = service["spec"]
        assert spec["clusterIP"] not in ("", "None")
        assert spec["publishNotReadyAddresses"] is True
        assert [(each["name"], each["port"], each["targetPort"]) for each in spec["ports"]] == [("http", 80, 8080), ("metrics", 9090, 9090)]
    job.run(0, 1)
    eventually(lambda: sorted(addresses(team)) == ["served-worker-0", "served-worker-1"])


def test_a_job_whose_name_the_server_makes_up(team):
    body = a_job("", replicas(2, args=["$(service.worker[1].host)"]), service={"ports": [{"port": 80}]})
    body["metadata"] = {"generateName": "made-up-"}
    job = team.submit(body)
    assert job.name.startswith("made-up-")
    assert len(job.name) == len("made-up-") + 5
    names = {f"{job.name}-worker-0", f"{job.name}-worker-1"}
    pods = job.has_pods(2)
    assert set(pods) == set(job.has_services(2)) == names
    assert {pod["metadata"]["labels"]["genericjob"] for pod in pods.values()} == {job.name}
    assert pods[f"{job.name}-worker-0"]["spec"]["containers"][0]["args"] == [f"{job.name}-worker-1"]
    job.run(0, 1)
    job.finish(0)
    job.finish(1)
    job.becomes("Succeeded")


# ------------------------------------------------------------------------------------------------ pods


def test_pods_and_services_say_whose_they_are(team):
    template = {"metadata": {"labels": {"app": "mine"}, "annotations": {"note": "kept"}, "finalizers": ["not.copied/at-all"]}}
    template |= replicas()["template"]
    job = team.submit(a_job("train", replicas() | {"template": template}, service={"ports": [{"port": 80}]}))
    ours = {
        "genericjob": "train",
        "genericjob-replica": "train-worker-0",
        "tensorstack.dev/component": "genericjob",
        "tensorstack.dev/component-type": "user",
    }
    owner = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "name": "train",
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    pod = job.has_pods(1)["train-worker-0"]
    assert pod["metadata"]["labels"] == ours | {"app": "mine"}
    assert marks(pod) == {"epoch": "0", "attempt": "0", "charged-restarts": "0"}
    assert pod["metadata"]["annotations"]["note"] == "kept"
    assert pod["metadata"]["ownerReferences"] == [owner]
    assert "finalizers" not in pod["metadata"]
    assert pod["spec"]["restartPolicy"] == "Never"
    service = job.has_services(1)["train-worker-0"]
    assert service["metadata"]["labels"] == ours
    assert service["metadata"]["ownerReferences"] == [owner]


def test_variables_that_mean_nothing_are_left_and_told(team):
    command = ["sh", "-c", "$(rank) of $(replicas[worker]) at $(date), $(replicas[nobody]), $$(rank), $(service.worker[0].host)"]
    job = team.submit(a_job("train", replicas(2, command=command)))
    pods = job.has_pods(2)
    text = pods["train-worker-1"]["spec"]["containers"][0]["command"][2]
    assert text == "1 of 2 at $(date), $(replicas[nobody]), $$(rank), $(service.worker[0].host)"
    ((count, message),) = job.told("UnresolvedVariables")
    assert count == 1
    assert message.endswith("were left as they are: $(replicas[nobody]), $(service.worker[0].host)")


def test_a_pod_that_somebody_deletes_is_created_again_unless_it_has_ended(team, audit):
    job = team.submit(a_job("train", replicas(3)))
    before = job.has_pods(3)
    job.run(0, 1, 2)
    job.finish(1)
    eventually(lambda: job.task().get("succeededRanks") == "1")
    begin = audit.here
    for rank in (0, 1):
        team.server.delete(RAW_PODS, job.pod(rank))

    eventually(lambda: job.aggregate == counts(pending=1, running=1, deleted=1))
    replica = job.task()["replicas"][1]
    assert (replica["phase"], replica["uid"]) == ("Deleted", before["train-worker-1"]["metadata"]["uid"])
    assert replica["containers"] == [{"name": "main", "state": "Terminated", "exitCode": 0, "reason": "Completed"}]

    assert job.pods["train-worker-0"]["metadata"]["uid"] != before["train-worker-0"]["metadata"]["uid"]
    job.run(0)
    job.finish(0)
    job.finish(2)
    job.becomes("Succeeded")
    created = audit.requests(since=begin, user=USER, verbs={"create"}, resource="pods", namespace=team.namespace)
    assert [(each.name, each.code) for each in created] == [("train-worker-0", 201)]


def test_after_its_end_a_job_creates_nothing(team, audit):
    job = team.submit(a_job("train", replicas(2), successRules=[{"worker": [0]}]))
    job.has_pods(2)
    job.run(0, 1)
    job.finish(0)
    job.becomes("Succeeded")
    begin = audit.here
    for rank in (0, 1):
        team.server.delete(RAW_PODS, job.pod(rank))
    job.has_pods(0)
    team.controller_is_up_to_date()
    eventually(lambda: job.aggregate == counts(deleted=2))
    created = audit.requests(since=begin, user=USER, verbs={"create"}, resource="pods", namespace=team.namespace)
    assert {each.name for each in created} == {"fence-1-worker-0"}
    assert job.phase == "Succeeded"


# ------------------------------------------------------------------------------------------------ what people see


def test_status_tells_how_replicas_stand(team, kubectl):
    job = team.submit(a_job("train", replicas(1, "chief"), replicas(3), successRules=[{"chief": [0]}]))
    job.has_pods(4)
    eventually(lambda: job.aggregate == counts(pending=4))
    assert {type for type, status in statuses(job).items() if status == "True"} == {"Initialized"}
    assert job.phase == "Pending"
    job.run(0, type="chief")
    job.run(0, 1)
    eventually(lambda: job.aggregate == counts(pending=1, running=3))
    assert job.phase == "Running"
    assert {type for type, status in statuses(job).items() if status == "True"} == {"Initialized", "Running"}
    job.finish(0, 9)
    job.finish(1)
    eventually(lambda: job.aggregate == counts(pending=1, running=1, succeeded=1, failed=1))
    assert {type for type, status in statuses(job).items() if status == "True"} == {"Initialized", "Running", "ReplicaFailure"}
    chief, worker = job.status["tasks"]
    assert (chief["type"], worker["type"]) == ("chief", "worker")
    assert (worker["succeededRanks"], worker["failedRanks"]) == ("1", "0")
    assert worker["replicas"][0]["containers"][0]["exitCode"] == 9
    assert kubectl("get", "gj", "train").splitlines()[1].split()[1:3] == ["Running", "2/4"]


def test_kubectl_waits_for_the_end_and_describes_it(team, kubectl):
    job = team.submit(a_job("train", replicas(2)))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(kubectl, "wait", "--for=condition=Completed", "gj/train", "--timeout=50s")
        job.run(0, 1)
        job.finish(0)
        job.finish(1)
        assert waiting.result() == "genericjob.batch.tensorstack.dev/train condition met\n"
    job.told("Succeeded")
    events = sorted(line.split(maxsplit=4) for line in kubectl("describe", "gj", "train").split("Events:")[1].splitlines()[3:])
    assert [(kind, reason, source, message) for kind, reason, _, source, message in events] == [
        ("Normal", "Succeeded", "genericjob-controller", "The job has finished successfully."),
        ("Normal", "SuccessfulCreate", "genericjob-controller", "Created 2 pods"),
    ]
