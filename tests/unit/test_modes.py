"""Debug and resume: what they change in a template, and that they change nothing else."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api.spec import parse
from genericjob.jobs.modes import mode_of

PROBE = {"exec": {"command": ["true"]}}
TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {
        "initContainers": [{"name": "fetch", "command": ["fetch"]}],
        "containers": [
            {
                "name": "main",
                "command": ["train"],
                "args": ["--epochs=3"],
                "livenessProbe": PROBE,
                "startupProbe": PROBE,
                "readinessProbe": PROBE,
            },
            {"name": "helper", "command": ["serve"], "args": ["a"], "livenessProbe": PROBE, "startupProbe": PROBE},
        ],
        "nodeName": "n",
    },
}
EVERYTHING = {"command": ["again"], "args": ["--from=last"], "skipInitContainer": True}


def a_spec(*, debug=None, resume=None, enabled=True, template=TEMPLATE):
    mode = {}
    if debug is not None:
        mode["debug"] = {"enabled": enabled, "replicaSpecs": debug}
    if resume is not None:
        mode["pause"] = {"resumeSpecs": resume}
    return parse({"replicaSpecs": [{"type": "worker", "template": template}, {"type": "ps"}], "runMode": mode})


def applied(*, type="worker", resumed=False, template=TEMPLATE, **modes):
    return mode_of(a_spec(template=template, **modes), type=type, resumed=resumed).applied(template)


def expected(*, keeps_init=True, **main):
    """The template with another first container: a field that is None is gone."""
    found = deepcopy(TEMPLATE)
    found["spec"]["containers"][0] |= main
    found["spec"]["containers"][0] = {name: value for name, value in found["spec"]["containers"][0].items() if value is not None}
    if not keeps_init:
        del found["spec"]["initContainers"]
    return found


def debugged(*command, **more):
    return expected(command=list(command), args=None, livenessProbe=None, startupProbe=None, **more)


def worker(**fields):
    return {"type": "worker", **fields}


@pytest.mark.parametrize(
    ("why", "modes", "wanted"),
    [
        ("no mode is set", {}, TEMPLATE),
        ("no mode is set, and the job has gone on", {"resumed": True}, TEMPLATE),
        ("debug is there and not enabled", {"debug": [worker(command=["sshd"], skipInitContainer=True)], "enabled": False}, TEMPLATE),
        ("no type is named", {"debug": []}, debugged("sleep", "inf")),
        ("another type is named", {"debug": [{"type": "ps", "command": ["sshd"], "skipInitContainer": True}]}, debugged("sleep", "inf")),
        ("the type is named without anything", {"debug": [worker()]}, debugged("sleep", "inf")),
        ("it has a command", {"debug": [worker(command=["/usr/bin/sshd", "-D"])]}, debugged("/usr/bin/sshd", "-D")),
        ("its command is empty, which would start the image's own", {"debug": [worker(command=[])]}, debugged("sleep", "inf")),
        ("it skips init containers", {"debug": [worker(skipInitContainer=True)]}, debugged("sleep", "inf", keeps_init=False)),
        ("it has not gone on yet", {"resume": [worker(**EVERYTHING)]}, TEMPLATE),
        ("it goes on as it began", {"resume": [], "resumed": True}, TEMPLATE),
        ("another type goes on differently", {"resume": [{"type": "ps", **EVERYTHING}], "resumed": True}, TEMPLATE),
        ("it goes on and says nothing", {"resume": [worker()], "resumed": True}, TEMPLATE),
        ("it goes on with another command", {"resume": [worker(command=["again"])], "resumed": True}, expected(command=["again"])),
        ("it goes on with other args", {"resume": [worker(args=["--from=last"])], "resumed": True}, expected(args=["--from=last"])),
        ("it goes on without args", {"resume": [worker(args=[])], "resumed": True}, expected(args=[])),
        (
            "it goes on with all of it",
            {"resume": [worker(**EVERYTHING)], "resumed": True},
            expected(command=["again"], args=["--from=last"], keeps_init=False),
        ),
        ("it goes on without init containers", {"resume": [worker(skipInitContainer=True)], "resumed": True}, expected(keeps_init=False)),
        ("debug wins, entirely", {"debug": [], "resume": [worker(**EVERYTHING)], "resumed": True}, debugged("sleep", "inf")),
        (
            "debug that is not enabled does not win",
            {"debug": [], "enabled": False, "resume": [worker(command=["again"])], "resumed": True},
            expected(command=["again"]),
        ),
    ],
)
def test_what_a_mode_makes_of_a_template(why, modes, wanted):
    assert applied(**modes) == wanted, why


def test_a_template_without_a_command_gets_one():
    template = {"spec": {"containers": [{"name": "main"}]}}
    assert applied(debug=[], template=template) == {"spec": {"containers": [{"name": "main", "command": ["sleep", "inf"]}]}}
    assert applied(resume=[worker(args=["x"])], resumed=True, template=template) == {
        "spec": {"containers": [{"name": "main", "args": ["x"]}]}
    }


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"spec": None},
        {"spec": "text"},
        {"spec": ["text"]},
        {"spec": {"initContainers": []}},
        {"spec": {"initContainers": [], "containers": None}},
        {"spec": {"initContainers": [], "containers": []}},
        {"spec": {"initContainers": [], "containers": {"name": "main"}}},
        {"spec": {"initContainers": [], "containers": ["main", {"name": "helper"}]}},
    ],
)
@pytest.mark.parametrize(
    "mode", [{"debug": [worker(skipInitContainer=True)]}, {"resume": [worker(**EVERYTHING)], "resumed": True}], ids=["debug", "resume"]
)
def test_what_is_malformed_is_passed_on_as_it_is(template, mode):
    assert applied(template=template, **mode) == template


# ------------------------------------------------------------------------------------------------ nothing else


names = st.sampled_from(
    ["metadata", "spec", "containers", "initContainers", "command", "args", "livenessProbe", "startupProbe", "readinessProbe", "env", "x"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)
container = st.dictionaries(names, anything, max_size=6)
containers = st.lists(container, min_size=1, max_size=3)
templates = st.dictionaries(names, anything, max_size=3) | st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": containers}, optional={"initContainers": containers | anything, "x": anything})},
    optional={"metadata": anything},
)
words = st.lists(st.text(max_size=3), max_size=2)
types = st.sampled_from(["worker", "ps"])
overrides = {"command": words, "skipInitContainer": st.booleans()}
debugs = st.none() | st.lists(st.fixed_dictionaries({"type": types}, optional=overrides), max_size=1)
resumes = st.none() | st.lists(st.fixed_dictionaries({"type": types}, optional={**overrides, "args": words}), max_size=1)


def rest(found):
    """A template without all that a mode may change."""
    spec = found.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list) or not spec["containers"]:
        return found
    first, *others = spec["containers"]
    if isinstance(first, dict):
        first = {name: value for name, value in first.items() if name not in ("command", "args", "livenessProbe", "startupProbe")}
    spec = {name: value for name, value in spec.items() if name not in ("initContainers", "containers")}
    return {name: value for name, value in found.items() if name != "spec"} | {"first": first, "others": others, "of the spec": spec}


@given(templates, debugs, resumes, st.booleans(), st.booleans())
def test_a_mode_changes_nothing_but_its_own_fields(template, debug, resume, enabled, resumed):
    before = deepcopy(template)
    found = applied(template=template, debug=debug, resume=resume, enabled=enabled, resumed=resumed)
    assert template == before  # it belongs to the cache
    assert rest(found) == rest(template)


@given(templates, st.lists(st.fixed_dictionaries({"type": types, "args": words}), max_size=1))
def test_going_on_never_takes_anything_away_that_nobody_asked_to_skip(template, resume):
    found = applied(template=template, resume=resume, resumed=True)
    spec, changed = template.get("spec"), found.get("spec")
    if isinstance(spec, dict):
        assert changed.get("initContainers") == spec.get("initContainers")
        assert changed.keys() == spec.keys()
