"""`genericjob get -o jsonpath=…`."""

import pytest

from genericjob.cli.jsonpath import TemplateError, template
from unit.calling import genericjob
from unit.jsonpaths import BODY, PRINTED


@pytest.mark.parametrize(("text", "printed"), PRINTED.items())
def test_a_template_prints_what_kubectl_prints(text, printed):
    assert template(text)(BODY) == printed


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{.metadata.name", "is not closed by }"),
        ("{.spec.replicaSpecs[0}", "is not closed by"),
        ("{}", "nothing in them"),
        ("{status.phase}", "is no path"),
        ("{.a[x]}", "is none of a number"),
        ("{.a['x' y]}", "is no list of names"),
        ("{.a[?@.x]}", "is no filter"),
        ("{.a[?(@.x==y)]}", "is neither a path, a number nor a text"),
        ("{range .a[*]}x", "has no {end}"),
        ("{end}", "without a {range}"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(text, complaint):
    with pytest.raises(TemplateError) as raised:
        template(text)
    assert complaint in str(raised.value)


def test_it_is_refused_before_a_server_is_asked():
    done = genericjob("get", "-o", "jsonpath={.a", "--kubeconfig", "/nowhere")
    assert (done.code, done.out) == (2, "")
    assert "--output jsonpath: {.a is not closed by }" in done.err
    done = genericjob("get", "-o", "jsn")
    assert (done.code, "'jsn' is not one of" in done.err) == (2, True)


def test_a_name_in_quotes_may_have_dots():
    """As people mean it: kubectl wants `example\\.dev/kind` there, and prints nothing without the backslash."""
    assert template("{.metadata.labels['example.dev/kind']}")(BODY) == "x"
