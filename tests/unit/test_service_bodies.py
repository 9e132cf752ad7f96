"""Services of a type: a name for each rank, and for no pod of anybody else."""

import json

import pytest

from genericjob.api.names import JobIdentity, replica_name
from genericjob.api.spec import parse
from genericjob.jobs.pods import compile_pods
from genericjob.jobs.services import compile_services
from genericjob.reconcile.resources import SERVICES

JOB = JobIdentity("default", "train", "uid-1")
HTTP = {"name": "http", "port": 2222}


def a_spec(*ports, type="worker", replicas=2):
    return parse({"replicaSpecs": [{"type": type, "replicas": replicas}], "service": {"ports": list(ports)}})


def compiled(*ports, job=JOB, type="worker"):
    return compile_services(job=job, service=a_spec(*ports).service, type=type, marker="m")


def service(*ports, rank=0, **given):
    return json.loads(compiled(*ports, **given).body(rank))


def pod(*, job, type, rank):
    spec = a_spec(type=type)
    bodies = compile_pods(job=job, spec=spec, type=type, resumed=False, host=lambda of, rank: "", markers=("m", "m", "m", "m"))
    return json.loads(bodies.body(rank, epoch=0, attempt=0, charged=0))


def matches(service, pod):
    return service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_the_whole_body():
    assert service(HTTP, rank=1) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "train-worker-1",
            "namespace": "default",
            "labels": {
                "genericjob": "train",
                "genericjob-replica": "train-worker-1",
                "tensorstack.dev/component": "genericjob",
                "tensorstack.dev/component-type": "user",
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch.tensorstack.dev/v1beta1",
                    "kind": "GenericJob",
                    "name": "train",
                    "uid": "uid-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "selector": {"genericjob": "train", "genericjob-replica": "train-worker-1"},
            "publishNotReadyAddresses": True,
            "ports": [{"name": "http", "port": 2222}],
            "clusterIP": "None",
        },
    }


@pytest.mark.parametrize("rank", [0, 10, 9_999])
def test_it_has_the_name_and_the_labels_of_its_pod(rank):
    mine, its = service(HTTP, rank=rank)["metadata"], pod(job=JOB, type="worker", rank=rank)["metadata"]
    assert mine["name"] == its["name"] == replica_name("train", "worker", rank)
    assert mine["labels"] == its["labels"]
    assert mine["ownerReferences"] == its["ownerReferences"]


def test_it_selects_its_own_pod_and_no_other():
    mine = service(HTTP, rank=1)
    assert matches(mine, pod(job=JOB, type="worker", rank=1))
    assert not matches(mine, pod(job=JOB, type="worker", rank=0))
    assert not matches(mine, pod(job=JOB, type="worker", rank=11))


def test_it_does_not_select_the_pod_of_another_job_that_has_the_same_name():
    x, xa = JobIdentity("default", "x", "1"), JobIdentity("default", "x-a", "2")
    theirs = pod(job=x, type="a-worker", rank=0)
    assert service(HTTP, job=xa)["metadata"]["name"] == theirs["metadata"]["name"]
    assert not matches(service(HTTP, job=xa), theirs)


def test_all_ports_are_carried_as_they_were_written():
    ports = [HTTP, {"name": "rpc", "port": 1, "protocol": "UDP", "appProtocol": "x", "targetPort": 1, "nodePort": 30000}]
    assert service(*ports)["spec"]["ports"] == ports
    assert service({"port": 1, "name": "", "targetPort": None})["spec"]["ports"] == [{"port": 1, "name": ""}]


@pytest.mark.parametrize("target", [2222, 0, "", None])
def test_a_port_of_the_pod_itself_needs_no_address(target):
    assert service({"port": 2222, "targetPort": target})["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("target", [22, "http", "2222"])
def test_leading_one_port_to_another_needs_an_address(target):
    spec = service(HTTP, {"name": "x", "port": 2222, "targetPort": target})["spec"]
    assert "clusterIP" not in spec
    assert spec["publishNotReadyAddresses"] is True


SEVERAL = (HTTP, {"name": "rpc", "port": 3333}, {"name": "rpc-udp", "port": 3333, "protocol": "UDP"})


def test_one_port_that_leads_elsewhere_is_enough_for_an_address():
    assert service(*SEVERAL)["spec"]["clusterIP"] == "None"
    assert "clusterIP" not in service(*SEVERAL, {"name": "x", "port": 80, "targetPort": 8080})["spec"]


@pytest.mark.parametrize(
    ("ports", "headless"),
    [
        ((), True),
        ((HTTP,), True),
        (({"port": 2222},), True),
        (SEVERAL, True),
        (({"name": "x", "port": 80, "targetPort": 8080}, HTTP), False),
    ],
)
def test_the_server_takes_it(api, ports, headless):
    created = api.create(SERVICES, compiled(*ports).body(1), "default").object
    assert (created.name, created.owner_uid) == ("train-worker-1", "uid-1")
    assert [(port.name, port.port) for port in created.ports] == [(port.get("name", ""), port["port"]) for port in ports]
    assert (created.cluster_ip == "None") is headless
    assert created.cluster_ip
