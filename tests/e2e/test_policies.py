"""The optional policies on a real server: they warn, and they refuse nothing."""

import pytest
import yaml

from e2e.jobs import a_job, replicas, restarts
from genericjob.reconcile.resources import Key
from harness.clusters import Namespaces, eventually
from harness.corpus import manifests
from harness.definitions import MANIFESTS

FILE = MANIFESTS / "policies" / "warnings.yaml"
CALLING = "echo $(service.worker[0].host)"
ALWAYS = "always and without a limit"


@pytest.fixture(scope="module")
def warned(cluster, server, genericjobs):
    """Create a job, and hear what the policy says of it. Gone with the module: other tests count warnings."""
    if cluster.plane is None:
        pytest.skip("needs a control plane of its own; --kubeconfig names a cluster that belongs to others")
    with Namespaces(server).fresh() as namespace:

        def create(job):
            made = server.create(genericjobs, job, namespace, field_validation="Strict")
            server.delete(genericjobs, Key(namespace, made.object["metadata"]["name"]))
            return [text.partition("genericjob-warnings': ")[2] for text in made.warnings]

        cluster.plane.kubectl("apply", f"--filename={FILE}")
        try:
            eventually(lambda: create(a_job("bare", replicas() | {"template": {}})))
            yield create
        finally:
            cluster.plane.kubectl("delete", f"--filename={FILE}")


def in_template(**pod):
    return replicas() | {"template": {"spec": replicas()["template"]["spec"] | pod}}


WARNINGS = {
    "a success rule of an unknown type": (
        a_job("j", successRules=[{"worker": [0]}, {"worker": [0], "nobody": [0]}]),
        ["successRules", "type nobody"],
    ),
    "a failure rule of an unknown type": (a_job("j", failureRules=[{"nobody": ["0"]}]), ["failureRules", "type nobody"]),
    "a success rule of an unknown rank": (a_job("j", successRules=[{"worker": ["1"]}]), ["successRules", "rank"]),
    "a failure rule of an unknown rank": (a_job("j", failureRules=[{"worker": [0, 1]}]), ["failureRules", "rank"]),
    "a rule of a type without replicas": (a_job("j", replicas(0), successRules=[{"worker": [0]}]), ["successRules", "rank"]),
    "a success rule of a range that is too long": (a_job("j", replicas(3), successRules=[{"worker": ["0-3"]}]), ["successRules", "rank"]),
    "a failure rule of all of nobody": (a_job("j", replicas(0), failureRules=[{"worker": ["all"]}]), ["failureRules", "rank"]),
    "a success rule of a range that is backwards": (
        a_job("j", replicas(3), successRules=[{"worker": ["1-0"]}]),
        ["successRules", "backwards"],
    ),
    "a failure rule of a range that is backwards": (
        a_job("j", replicas(3), failureRules=[{"worker": [0, "2-1"]}]),
        ["failureRules", "backwards"],
    ),
    "an empty success rule": (a_job("j", successRules=[{}]), ["successRules", "no ranks"]),
    "an empty failure rule": (a_job("j", failureRules=[{"worker": []}]), ["failureRules", "no ranks"]),
    "a success rule of a type that never ends": (
        a_job("j", replicas() | restarts("Always"), successRules=[{"worker": [0]}]),
        ["successRules", ALWAYS],
    ),
    "a failure rule of a type that never ends": (
        a_job("j", replicas() | restarts("Always"), failureRules=[{"worker": [0]}]),
        ["failureRules", ALWAYS],
    ),
    "a command that asks for a service": (a_job("j", replicas(command=["sh", "-c", CALLING])), ["spec.service", "type worker"]),
    "arguments that ask for a service": (a_job("j", replicas(args=[CALLING])), ["spec.service"]),
    "a variable that asks for a service": (a_job("j", replicas(env=[{"name": "A"}, {"name": "B", "value": CALLING}])), ["spec.service"]),
    "an init container that asks for a service": (a_job("j", in_template(initContainers=[{"command": [CALLING]}])), ["spec.service"]),
    "a restart policy in the template": (a_job("j", in_template(restartPolicy="OnFailure")), ["restartPolicy", "type worker"]),
    "a template without a spec": (a_job("j", replicas() | {"template": {}}), ["no containers", "type worker"]),
    "a template without containers": (a_job("j", in_template(containers=[])), ["no containers", "type worker"]),
}


@pytest.mark.parametrize(("job", "words"), WARNINGS.values(), ids=WARNINGS.keys())
def test_warned_about(warned, job, words):
    (told,) = warned(job)
    assert [word for word in words if word not in told] == []


NOTHING = {
    "rules": a_job("j", replicas(2), successRules=[{"worker": [0, "1"]}], failureRules=[{"worker": [1], "nobody": []}]),
    "many ranks": a_job(
        "j", replicas(9), successRules=[{"worker": ["0-8", 3, "7"]}, {"worker": ["all"]}], failureRules=[{"worker": ["any"]}]
    ),
    "a limit": a_job("j", replicas() | restarts("Always", 3), successRules=[{"worker": [0]}]),
    "a code that ends it": a_job("j", replicas() | restarts("Always", exitCodes={"neverRestart": [1]}), failureRules=[{"worker": [0]}]),
    "variables of a service": a_job("j", replicas(args=[CALLING]), service={}),
    "other variables": a_job("j", replicas(args=["$(rank) of $(replicas[worker]) $(date)"])),
    "the restart policy that pods have": a_job("j", in_template(restartPolicy="Never")),
    "what cannot be evaluated": a_job("j", in_template(containers="none", restartPolicy="Never")),
}


@pytest.mark.parametrize("job", NOTHING.values(), ids=NOTHING.keys())
def test_nothing_to_say(warned, job):
    assert warned(job) == []


@pytest.mark.parametrize("manifest", manifests("accepted"), ids=str)
def test_nothing_is_refused(warned, manifest):
    assert bool(warned(manifest.job)) == (str(manifest) in WARNED)


WARNED = {
    "odd-rules-that-never-fire",
    "odd-ranges",
    "odd-words-for-types-without-replicas",
    "odd-empty-template",
    "odd-template-that-can-never-run",
    "seed-05-tf-config",
}


def test_what_has_not_changed_is_not_told_again(warned, server, genericjobs, namespace, kubectl):
    assert server.create(genericjobs, a_job("odd", successRules=[{"nobody": [0]}]), namespace).warnings
    kubectl("label", "genericjob/odd", "seen=yes", "--warnings-as-errors")
    shown = {"check": False, "input": yaml.safe_dump(a_job("odd", successRules=[{"nobody": [1]}]))}
    assert kubectl("replace", "--filename=-", "--warnings-as-errors", "--output=name", **shown)  # changed, whatever was said
    assert server.get(genericjobs, Key(namespace, "odd"))["spec"]["successRules"] == [{"nobody": [1]}]
