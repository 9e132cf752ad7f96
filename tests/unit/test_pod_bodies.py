"""Pods of a type: exact bodies for every rank, whatever the template looks like."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api.names import JobIdentity, replica_name
from genericjob.api.spec import InvalidSpecError, parse
from genericjob.jobs.pods import compile_pods, scope_of
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import PODS
from genericjob.templating import parse as parse_text
from genericjob.templating import substitute

JOB = JobIdentity("default", "generic-example", "uid-1")
TENSORFLOW = (
    '{"task":{"type":"$(type)","index":$(rank)},"cluster":{"worker":["$(service.worker[0].host):$(service.port[http])",'
    '"$(service.worker[1].host):$(service.port[http])","$(service.worker[2].host):$(service.port[http])",'
    '"$(service.worker[3].host):$(service.port[http])"]}}'
)
SERVICE = {"ports": [{"name": "http", "port": 2222}]}


def a_container(**fields):
    return {"name": "main", "image": "busybox", **fields}


def a_template(*containers, metadata=None, **fields):
    template = {"spec": {"containers": list(containers) or [a_container()], **fields}}
    return template if metadata is None else {"metadata": metadata, **template}


def a_spec(template, *, replicas=4, **fields):
    return {"replicaSpecs": [{"type": "worker", "replicas": replicas, "template": template}], **fields}


def compiled(spec, *, type="worker", resumed=False, job=JOB, markers=("m", "m", "m", "m"), host=None):
    def named(of, rank):
        return replica_name(job.name, of, rank)

    return compile_pods(job=job, spec=parse(spec), type=type, resumed=resumed, host=host or named, markers=markers)


def sent(bodies, rank=0, *, epoch=0, attempt=0, charged=0):
    return bodies.body(rank, epoch=epoch, attempt=attempt, charged=charged)


def pod(bodies, rank=0, **numbers):
    return json.loads(sent(bodies, rank, **numbers))


def only(template, *, resumed=False, **fields):
    return pod(compiled(a_spec(template, **fields), resumed=resumed))


# ------------------------------------------------------------------------------------------------ what a pod is


def test_the_whole_body():
    bodies = compiled(a_spec(a_template(a_container(command=["sleep", "365"]))))
    assert pod(bodies, 2, epoch=5, attempt=7, charged=3) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "generic-example-worker-2",
            "namespace": "default",
            "labels": {
                "genericjob": "generic-example",
                "genericjob-replica": "generic-example-worker-2",
                "tensorstack.dev/component": "genericjob",
                "tensorstack.dev/component-type": "user",
            },
            "annotations": {
                "batch.tensorstack.dev/epoch": "5",
                "batch.tensorstack.dev/attempt": "7",
                "batch.tensorstack.dev/charged-restarts": "3",
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch.tensorstack.dev/v1beta1",
                    "kind": "GenericJob",
                    "name": "generic-example",
                    "uid": "uid-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "365"]}],
            "enableServiceLinks": False,
            "restartPolicy": "Never",
        },
    }
    assert bodies.unresolved == ()
    assert bodies.remarks == ()


@pytest.mark.parametrize("rank", [0, 9, 10, 9_999])
def test_the_name_is_the_one_that_everybody_else_computes(rank):
    found = pod(compiled(a_spec(a_template(), replicas=10_000)), rank)["metadata"]
    assert found["name"] == found["labels"]["genericjob-replica"] == replica_name("generic-example", "worker", rank)


def test_tensorflow_is_told_its_cluster_exactly():
    template = a_template(a_container(command=["python", "/mnt/training.py"], env=[{"name": "TF_CONFIG", "value": TENSORFLOW}]))
    bodies = compiled(a_spec(template, service=SERVICE))
    assert bodies.unresolved == ()
    for rank in range(4):
        assert pod(bodies, rank)["spec"]["containers"][0]["env"][0]["value"] == (
            '{"task":{"type":"worker","index":' + str(rank) + '},"cluster":{"worker":["generic-example-worker-0:2222",'
            '"generic-example-worker-1:2222","generic-example-worker-2:2222","generic-example-worker-3:2222"]}}'
        )


def test_without_a_service_the_same_text_keeps_its_service_variables():
    bodies = compiled(a_spec(a_template(a_container(env=[{"name": "TF_CONFIG", "value": TENSORFLOW}]))))
    assert bodies.unresolved == (
        "$(service.worker[0].host)",
        "$(service.port[http])",
        "$(service.worker[1].host)",
        "$(service.worker[2].host)",
        "$(service.worker[3].host)",
    )
    expected = TENSORFLOW.replace("$(type)", "worker").replace("$(rank)", "1")
    assert pod(bodies, 1)["spec"]["containers"][0]["env"][0]["value"] == expected


def test_hosts_are_what_the_controller_says():
    spec = a_spec(a_template(a_container(args=["$(service.worker[3].host)"])), service=SERVICE)
    found = pod(compiled(spec, host=lambda of, rank: f"127.1.0.{rank + 1}"))
    assert found["spec"]["containers"][0]["args"] == ["127.1.0.4"]


def test_a_port_without_a_name_cannot_be_referenced():
    bodies = compiled(a_spec(a_template(a_container(args=["$(service.port[http])"])), service={"ports": [{"port": 2222}]}))
    assert bodies.unresolved == ("$(service.port[http])",)


def test_of_several_ports_each_has_its_name_and_means_the_port_of_the_service():
    ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "rpc", "port": 3333}]
    bodies = compiled(a_spec(a_template(a_container(args=["$(service.port[http])/$(service.port[rpc])"])), service={"ports": ports}))
    assert pod(bodies)["spec"]["containers"][0]["args"] == ["80/3333"]
    assert bodies.unresolved == ()


# ------------------------------------------------------------------------------------------------ where variables are replaced


def test_variables_are_replaced_in_command_args_and_env_values_of_all_containers():
    text = "$(type)-$(rank)-$(replicas[worker])"
    container = a_container(command=[text, "x"], args=[text], env=[{"name": "A", "value": text}, {"name": "B", "value": "$$(rank)"}])
    spec = only(a_template(container, container, initContainers=[container, container]))["spec"]
    for group in ("containers", "initContainers"):
        for found in spec[group]:
            assert (found["command"], found["args"]) == (["worker-0-4", "x"], ["worker-0-4"])
            assert [variable["value"] for variable in found["env"]] == ["worker-0-4", "$$(rank)"]


def test_variables_are_replaced_nowhere_else():
    odd = a_container(
        image="$(rank)",
        workingDir="$(rank)",
        env=[{"name": "$(rank)", "valueFrom": {"fieldRef": {"fieldPath": "$(rank)"}}}],
        envFrom=[{"prefix": "$(rank)"}],
        lifecycle={"preStop": {"exec": {"command": ["$(rank)"]}}},
    )
    template = a_template(odd, metadata={"labels": {"a": "$(rank)"}, "annotations": {"b": "$(rank)"}}, nodeName="$(rank)")
    found = only(template)
    assert found["spec"]["containers"] == [odd]
    assert found["spec"]["nodeName"] == "$(rank)"
    assert found["metadata"]["labels"]["a"] == found["metadata"]["annotations"]["b"] == "$(rank)"


# ------------------------------------------------------------------------------------------------ what the template may say


def test_of_the_metadata_only_labels_and_annotations_are_copied():
    metadata = {
        "name": "mine",
        "generateName": "mine-",
        "namespace": "other",
        "uid": "u",
        "ownerReferences": [{"uid": "other"}],
        "finalizers": ["a/b"],
        "labels": {"app": "x"},
        "annotations": {"note": "y"},
    }
    found = only(a_template(metadata=metadata))["metadata"]
    plain = only(a_template())["metadata"]
    assert found == plain | {"labels": {"app": "x"} | plain["labels"], "annotations": {"note": "y"} | plain["annotations"]}


def test_reserved_labels_win_and_it_is_said_once_for_each():
    labels = {"genericjob": "other", "genericjob-replica": "other", "tensorstack.dev/component": "genericjob", "app": "x"}
    bodies = compiled(a_spec(a_template(metadata={"labels": labels, "annotations": {"batch.tensorstack.dev/epoch": "9"}})))
    found = pod(bodies)["metadata"]
    assert found["labels"]["genericjob"] == "generic-example"
    assert found["labels"]["genericjob-replica"] == "generic-example-worker-0"
    assert found["annotations"]["batch.tensorstack.dev/epoch"] == "0"
    assert bodies.remarks == (
        "template of type worker: the label genericjob is reserved, the template's own value is not used",
        "template of type worker: the label genericjob-replica is reserved, the template's own value is not used",
        "template of type worker: the annotation batch.tensorstack.dev/epoch is reserved, the template's own value is not used",
    )


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "nonsense", 7, ["Always"]])
def test_pods_never_restart_by_themselves_and_it_is_said_if_the_template_asks_for_it(policy):
    bodies = compiled(a_spec(a_template(restartPolicy=policy)))
    assert pod(bodies)["spec"]["restartPolicy"] == "Never"
    assert bodies.remarks == (
        "template of type worker: restartPolicy is Never for the pods of this job, the template's own value is not used",
    )


@pytest.mark.parametrize("template", [a_template(), a_template(restartPolicy="Never"), a_template(restartPolicy=None)])
def test_nothing_is_said_about_a_policy_that_was_not_overridden(template):
    bodies = compiled(a_spec(template))
    assert pod(bodies)["spec"]["restartPolicy"] == "Never"
    assert bodies.remarks == ()


def test_a_sidecar_keeps_its_restart_policy():
    template = a_template(initContainers=[a_container(restartPolicy="Always")])
    assert only(template)["spec"]["initContainers"][0]["restartPolicy"] == "Always"


def test_the_scheduler_of_the_template_stays_when_the_job_names_none():
    found = only(a_template(schedulerName="mine"))
    assert found["spec"]["schedulerName"] == "mine"
    assert not [name for name in found["metadata"]["labels"] if name.startswith("scheduler.")]


def test_the_scheduler_of_the_job_wins():
    bodies = compiled(a_spec(a_template(schedulerName="mine"), scheduler={"t9kScheduler": {"queue": "q"}}))
    found = pod(bodies)
    assert found["spec"]["schedulerName"] == "t9k-scheduler"
    labels = {name: value for name, value in found["metadata"]["labels"].items() if name.startswith("scheduler.")}
    assert labels == {
        "scheduler.tensorstack.dev/group-name": "generic-example",
        "scheduler.tensorstack.dev/queue": "q",
        "scheduler.tensorstack.dev/role": "worker",
    }
    assert len(bodies.remarks) == 1
    assert "schedulerName is t9k-scheduler" in bodies.remarks[0]


def test_oddities_of_published_templates_pass():
    container = a_container(commands=["x"], resources={"limits": {"cpu": 4, "memory": "4Gi"}, "requests": {"cpu": 0.5}}, comand=["y"])
    spec = {"containers": [container], "hostNetwork": True, "restartPolicy": "Never", "whatever": {"deep": [1, None, {}]}}
    assert only({"spec": spec})["spec"] == {**spec, "enableServiceLinks": False}


@pytest.mark.parametrize("service", [None, SERVICE, {"ports": [{"port": 80, "targetPort": 8080}]}])
@pytest.mark.parametrize(("said", "sent"), [({}, False), (None, False), (False, False), (True, True), ("odd", "odd")])
def test_variables_for_services_are_for_those_who_ask_for_them(said, sent, service):
    template = a_template(**({} if said == {} else {"enableServiceLinks": said}))
    bodies = compiled(a_spec(template, service=service))
    assert pod(bodies)["spec"]["enableServiceLinks"] == sent
    assert bodies.remarks == ()


def test_the_template_is_not_changed():
    template = a_template(a_container(command=["$(rank)"]), metadata={"labels": {"genericjob": "x"}}, restartPolicy="Always")
    resume = {"pause": {"resumeSpecs": [{"type": "worker", "command": ["x"], "skipInitContainer": True}]}}
    spec = parse(a_spec(template, runMode=resume))
    before = deepcopy(spec)
    compile_pods(job=JOB, spec=spec, type="worker", resumed=True, host=lambda of, rank: "", markers=("1", "2", "3", "4"))
    assert spec == before


# ------------------------------------------------------------------------------------------------ debug and resume


def debug(**fields):
    return {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", **fields}]}}


def resume(**fields):
    return {"pause": {"resumeSpecs": [{"type": "worker", **fields}]}}


def test_a_debug_pod_says_so():
    found = only(a_template(a_container(args=["x"], livenessProbe={})), runMode={"debug": {"enabled": True}})
    assert found["metadata"]["annotations"]["batch.tensorstack.dev/debug"] == "true"
    assert found["spec"]["containers"] == [a_container(command=["sleep", "inf"])]


def test_only_the_job_says_what_a_debug_pod_is():
    annotations = {"batch.tensorstack.dev/debug": "true", "note": "y"}
    bodies = compiled(a_spec(a_template(metadata={"annotations": annotations})))
    assert pod(bodies)["metadata"]["annotations"].keys() == {
        "note",
        "batch.tensorstack.dev/epoch",
        "batch.tensorstack.dev/attempt",
        "batch.tensorstack.dev/charged-restarts",
    }
    assert bodies.remarks == (
        "template of type worker: the annotation batch.tensorstack.dev/debug is reserved, the template's own value is not used",
    )
    debugged = compiled(a_spec(a_template(metadata={"annotations": annotations}), runMode={"debug": {"enabled": True}}))
    assert pod(debugged)["metadata"]["annotations"]["batch.tensorstack.dev/debug"] == "true"
    assert debugged.remarks == ()


@pytest.mark.parametrize(
    ("mode", "resumed", "command", "args"),
    [
        (debug(command=["wait", "$(type)-$(rank)", "$$(rank)"]), False, ["wait", "worker-2", "$$(rank)"], None),
        (resume(command=["again", "$(type)-$(rank)"]), True, ["again", "worker-2"], ["of 4"]),
        (resume(args=["$(rank)", "of $(replicas[worker])", "$(date)"]), True, ["train"], ["2", "of 4", "$(date)"]),
        (resume(args=["$(rank)"]), False, ["train"], ["of 4"]),
    ],
)
def test_variables_are_replaced_in_what_a_mode_puts_in(mode, resumed, command, args):
    template = a_template(a_container(command=["train"], args=["of $(replicas[worker])"]))
    (found,) = pod(compiled(a_spec(template, runMode=mode), resumed=resumed), 2)["spec"]["containers"]
    assert (found["command"], found.get("args")) == (command, args)


def test_variables_that_mean_nothing_are_those_of_the_mode_in_force():
    spec = a_spec(a_template(a_container(args=["$(replicas[first])"])), runMode=resume(args=["$(replicas[second])"]))
    assert compiled(spec).unresolved == ("$(replicas[first])",)
    assert compiled(spec, resumed=True).unresolved == ("$(replicas[second])",)


def test_a_debug_pod_keeps_its_environment_and_its_place():
    env = [{"name": "RANK", "value": "$(rank)"}]
    found = only(a_template(a_container(env=env, resources={"limits": {"cpu": 1}}), volumes=[]), runMode=debug(skipInitContainer=True))
    assert found["spec"]["containers"][0]["env"] == [{"name": "RANK", "value": "0"}]
    assert found["spec"]["containers"][0]["resources"] == {"limits": {"cpu": 1}}
    assert found["spec"]["volumes"] == []


# ------------------------------------------------------------------------------------------------ what the template may break


MALFORMED = [
    ({"spec": "text"}, ("spec",)),
    ({"spec": ["text"]}, ("spec",)),
    ({"metadata": "text"}, ("metadata",)),
    ({"metadata": {"labels": ["text"]}}, ("metadata", "labels")),
    ({"metadata": {"labels": {"a": 1}}}, ("metadata", "labels", "a")),
    ({"metadata": {"annotations": 7}}, ("metadata", "annotations")),
    ({"spec": {"containers": "text"}}, ("spec", "containers")),
    ({"spec": {"containers": {"command": "$(rank)"}}}, ("spec", "containers")),
    ({"spec": {"containers": ["$(rank)"]}}, ("spec", "containers", 0)),
    ({"spec": {"containers": [a_container(command="$(rank)")]}}, ("spec", "containers", 0, "command")),
    ({"spec": {"containers": [a_container(env={"A": "$(rank)"})]}}, ("spec", "containers", 0, "env")),
    ({"spec": {"initContainers": 7, "containers": [a_container()]}}, ("spec", "initContainers")),
]
# Deeper than the API in memory looks; a real server refuses these too.
MALFORMED_DEEP = [
    ({"spec": {"containers": [a_container(args=["a", 7])]}}, ("spec", "containers", 0, "args")),
    ({"spec": {"containers": [a_container(env=["$(rank)"])]}}, ("spec", "containers", 0, "env", 0)),
    ({"spec": {"containers": [a_container(env=[{"name": "A", "value": 7}])]}}, ("spec", "containers", 0, "env", 0, "value")),
]


@pytest.mark.parametrize(("template", "where"), MALFORMED + MALFORMED_DEEP)
def test_what_is_malformed_is_passed_on_as_it_is(template, where):
    wanted, found = template, only(template)
    for step in where:
        wanted, found = wanted[step], found[step]
    assert found == wanted


@pytest.mark.parametrize("template", [template for template, _ in MALFORMED])
def test_what_is_malformed_is_refused_by_the_server(api, template):
    with pytest.raises(ApiError) as refused:
        api.create(PODS, sent(compiled(a_spec(template))), "default")
    assert refused.value.code in (400, 422)


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"spec": {}}, {"spec": {"containers": None}}, {"metadata": None}])
def test_a_template_without_containers_is_refused_by_the_server(api, template):
    with pytest.raises(ApiError, match="containers"):
        api.create(PODS, sent(compiled(a_spec(template))), "default")


def test_a_good_body_is_accepted(api):
    container = a_container(command=None, args=None, env=None)
    body = sent(compiled(a_spec(a_template(container, metadata={"labels": None, "annotations": None}))))
    created = api.create(PODS, body, "default").object
    assert (created.namespace, created.name, created.owner_uid) == ("default", "generic-example-worker-0", "uid-1")


@pytest.mark.parametrize("value", ["\ud800", {None: 1}])
def test_what_cannot_be_written_as_json_is_the_fault_of_the_spec(value):
    with pytest.raises(InvalidSpecError, match="the template of type worker"):
        compiled(a_spec(a_template(a_container(x=value))))


def test_a_type_that_the_job_does_not_have_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError):
        compiled(a_spec(a_template()), type="ps")


names = st.sampled_from(
    ["metadata", "labels", "annotations", "spec", "containers", "initContainers", "command", "args", "env", "value", "x"]
)
variables = st.sampled_from(
    ["$(rank)", "$$(rank)", "$(type)$(rank)", "$(service.worker[1].host)", "$(replicas[ps])", "@rank:m@", '\\"\n$(rank)']
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text() | variables,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(), inner, max_size=4),
    max_leaves=20,
)
fields = {"command": anything, "args": st.lists(variables), "env": anything, "livenessProbe": anything}
containers = st.lists(st.fixed_dictionaries({}, optional=fields) | anything, max_size=3)
templates = st.fixed_dictionaries(
    {},
    optional={
        "metadata": anything | st.fixed_dictionaries({}, optional={"labels": anything, "annotations": anything}),
        "spec": anything | st.fixed_dictionaries({}, optional={"containers": containers, "initContainers": containers, "x": anything}),
    },
)


def from_scratch(template, rank, debugged):
    """The body of one rank as one would write it without any compiling: a deep copy, changed in place."""
    template = deepcopy(template)
    if debugged:
        wait(items(template.get("spec"), "containers"))
    scope = scope_of(parse(a_spec(template)), type="worker", rank=str(rank), host=lambda of, rank: replica_name(JOB.name, of, rank))
    wanted = pod(compiled(a_spec({}, runMode=debug() if debugged else None)), rank)
    metadata, spec = template.get("metadata"), template.get("spec")
    for group in ("labels", "annotations"):
        if isinstance(metadata, dict):
            wanted["metadata"][group] = over(metadata.get(group), wanted["metadata"][group])
    for container in [*items(spec, "containers"), *items(spec, "initContainers")]:
        for field in ("command", "args"):
            if texts := items(container, field):
                container[field] = [replaced(text, scope) for text in texts]
        for variable in items(container, "env"):
            if isinstance(variable, dict) and "value" in variable:
                variable["value"] = replaced(variable["value"], scope)
    wanted["spec"] = over(spec, wanted["spec"])
    if not isinstance(metadata, dict | None):
        wanted["metadata"] = metadata
    return wanted


def wait(containers):
    if containers and isinstance(containers[0], dict):
        for field in ("args", "livenessProbe", "startupProbe"):
            containers[0].pop(field, None)
        containers[0]["command"] = ["wait", "$(rank)"]


def over(found, ours):
    return found | ours if isinstance(found, dict) else ours if found is None else found


def items(found, field):
    value = found.get(field) if isinstance(found, dict) else None
    return value if isinstance(value, list) else []


def replaced(text, scope):
    return substitute(parse_text(text), scope).text if isinstance(text, str) else text


@given(templates, st.integers(0, 10_000), st.booleans())
def test_any_template_compiles_to_what_a_deep_copy_would_have_become(template, rank, debugged):
    mode = debug(command=["wait", "$(rank)"]) if debugged else None
    bodies = compiled(a_spec(template, runMode=mode), markers=("5a0c", "5a0c", "5a0c", "5a0c"))
    assert pod(bodies, rank) == from_scratch(template, rank, debugged)
