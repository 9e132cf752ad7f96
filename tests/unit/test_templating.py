"""The five variables: what is one, what it becomes, and that everything else passes untouched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.templating import Form, Scope, Stencil, Template, Variable, parse, substitute
from genericjob.templating.stencil import FEW

MEGABYTE = 1_000_000

SCOPE = Scope(
    type="worker",
    rank="3",
    replicas={"worker": 12, "ps": 1, "idle": 0, "port": 2},
    host=lambda of, rank: f"train-{of}-{rank}",
    ports={"http": 2222, "0": 7000},
)
VALUES = {
    "$(type)": "worker",
    "$(rank)": "3",
    "$(replicas[worker])": "12",
    "$(replicas[ps])": "1",
    "$(replicas[idle])": "0",
    "$(replicas[port])": "2",
    "$(service.ps[0].host)": "train-ps-0",
    **{f"$(service.worker[{rank}].host)": f"train-worker-{rank}" for rank in range(12)},
    **{f"$(service.port[{rank}].host)": f"train-port-{rank}" for rank in range(2)},
    "$(service.port[http])": "2222",
    "$(service.port[0])": "7000",
}
"""All that can be replaced in this scope."""

pieces = st.lists(
    st.one_of(
        st.sampled_from([*VALUES, "$", "$$", "(", ")", "$(", "[", "]", "].host)", "rank", "rank)", "(type)", "$(service.", "$(replicas["]),
        st.sampled_from(
            ["worker", "0", "00", "http", "$(replicas[nobody])", "$(service.worker[12].host)", "$(date)", "$(echo ", " ", "\\", '"']
        ),
        st.text(max_size=5),
    ),
    max_size=12,
)
texts = pieces.map("".join)


def filled(text, scope=SCOPE):
    return substitute(parse(text), scope).text


def unresolved(text, scope=SCOPE):
    return substitute(parse(text), scope).unresolved


def steps(text, values):
    """The plainest reading: at each place a pair, one of the known variables, or a single character."""
    at = 0
    while at < len(text):
        known = [written for written in values if text.startswith(written, at)]
        step = "$$" if text.startswith("$$", at) else known[0] if known else text[at]
        yield step
        at += len(step)


def plainly(text, values=VALUES):
    return "".join(values.get(step, step) for step in steps(text, values))


# ------------------------------------------------------------------------------------------------ what is a variable


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("$(type)", Variable("$(type)", Form.TYPE)),
        ("$(rank)", Variable("$(rank)", Form.RANK)),
        ("$(replicas[ps])", Variable("$(replicas[ps])", Form.REPLICAS, "ps")),
        ("$(replicas[a-1])", Variable("$(replicas[a-1])", Form.REPLICAS, "a-1")),
        ("$(service.ps[10].host)", Variable("$(service.ps[10].host)", Form.HOST, "ps", "10")),
        ("$(service.ps[00].host)", Variable("$(service.ps[00].host)", Form.HOST, "ps", "00")),
        ("$(service.port[http])", Variable("$(service.port[http])", Form.PORT, "http")),
        ("$(service.port[0])", Variable("$(service.port[0])", Form.PORT, "0")),
        ("$(service.port[0].host)", Variable("$(service.port[0].host)", Form.HOST, "port", "0")),
        (f"$(replicas[{'a' * 63}])", Variable(f"$(replicas[{'a' * 63}])", Form.REPLICAS, "a" * 63)),
    ],
)
def test_each_form_is_read(text, variable):
    assert parse(text) == Template((variable,))
    assert parse(f"a{text}b") == Template(("a", variable, "b"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "$",
        "$$",
        "$(",
        "$()",
        "$(date)",
        "$(HOME)",
        "$(rank",
        "$rank",
        "${rank}",
        "$ (rank)",
        "$( rank)",
        "$(rank )",
        "$(Rank)",
        "$(rank)"[1:],
        "$(ranks)",
        "$(rank[0])",
        "$(replicas)",
        "$(replicas[])",
        "$(replicas[ps)",
        "$(replicas[p s])",
        "$(replicas[ps ])",
        "$(replicas[PS])",
        "$(replicas[p.s])",
        "$(replicas[-ps])",
        "$(replicas[ps-])",
        "$(replicas[ps]",
        "$(replicas[ps].host)",
        f"$(replicas[{'a' * 64}])",
        "$(service.ps.host)",
        "$(service.ps[].host)",
        "$(service.ps[0])",
        "$(service.ps[-1].host)",
        "$(service.ps[+1].host)",
        "$(service.ps[1_0].host)",
        "$(service.ps[x].host)",
        "$(service.ps[\u0661].host)",
        "$(service.ps[0].port)",
        "$(service.ps[0]xhost)",
        "$(service.port[])",
        "$(service.port)",
        "$(service.ports[http])",
        "$(servicexport[http])",
        "$(rank\n)",
        "$(rank)".replace("(", "\uff08"),
    ],
)
def test_everything_else_is_text(text):
    assert parse(text).constant
    assert filled(text) == text
    assert unresolved(text) == ()


def test_a_dollar_pair_is_copied_and_protects_what_follows():
    assert filled("$$(rank)") == "$$(rank)"
    assert filled("$$$(rank)") == "$$3"
    assert filled("$$$$(rank)") == "$$$$(rank)"
    assert filled("$(rank)$$(rank)$(rank)") == "3$$(rank)3"
    assert filled("a$") == "a$"


def test_what_belongs_to_a_shell_or_the_kubelet_passes():
    assert filled('echo $(date +%s) "$(hostname)" $HOME ${X:-$(rank)} $(NAME)') == 'echo $(date +%s) "$(hostname)" $HOME ${X:-3} $(NAME)'


def test_inner_parts_are_replaced_and_the_result_is_not_read_again():
    assert filled("$(echo $(rank))") == "$(echo 3)"
    assert filled("$($(type))") == "$(worker)"
    assert filled("$(service.worker[$(rank)].host)") == "$(service.worker[3].host)"


# ------------------------------------------------------------------------------------------------ what it becomes


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_each_variable_becomes_its_value(text, value):
    assert filled(text) == value
    assert filled(f"<{text}{text}>") == f"<{value}{value}>"
    assert unresolved(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "$(replicas[nobody])",
        "$(service.nobody[0].host)",
        "$(service.ps[1].host)",
        "$(service.idle[0].host)",
        "$(service.worker[12].host)",
        "$(service.port[grpc])",
    ],
)
def test_a_variable_that_means_nothing_stays_as_written_and_is_reported(text):
    assert filled(f"a {text}, $(rank)") == f"a {text}, 3"
    assert unresolved(text) == (text,)


@pytest.mark.parametrize("digits", ["00", "01", "003", "0" * 5000, "9" * 5000])
def test_a_rank_has_one_spelling(digits):
    text = f"$(service.worker[{digits}].host)"
    assert filled(text) == text
    assert unresolved(text) == (text,)


def test_without_services_only_hosts_and_ports_mean_nothing():
    scope = Scope(type="worker", rank="3", replicas={"worker": 4})
    text = "$(type) $(rank) $(replicas[worker]) $(service.worker[0].host):$(service.port[http])"
    assert filled(text, scope) == "worker 3 4 $(service.worker[0].host):$(service.port[http])"
    assert unresolved(text, scope) == ("$(service.worker[0].host)", "$(service.port[http])")


def test_what_means_nothing_is_reported_once_and_in_order():
    assert unresolved("$(replicas[b])$(replicas[a])$(replicas[b])") == ("$(replicas[b])", "$(replicas[a])")


# ------------------------------------------------------------------------------------------------ for any text


@given(texts)
def test_substitution_is_what_the_plainest_reading_says(text):
    assert filled(text) == plainly(text)


@given(texts)
def test_inserted_values_are_never_read(text):
    tricky = dict.fromkeys(VALUES, "$(type)$")
    scope = Scope(
        type="$(type)$", rank="$(type)$", replicas=SCOPE.replicas, host=lambda of, rank: "$(type)$", ports=dict.fromkeys(SCOPE.ports, 1)
    )
    numbers = [
        written for written in VALUES if written.startswith("$(replicas[") or written in ("$(service.port[http])", "$(service.port[0])")
    ]
    expected = tricky | {written: VALUES[written] if "replicas" in written else "1" for written in numbers}
    assert filled(text, scope) == plainly(text, expected)


@given(texts)
def test_a_template_keeps_its_text(text):
    template = parse(text)
    assert template.text == text
    assert all(template.segments)
    assert parse(template.text) == template
    assert not any(isinstance(a, str) and isinstance(b, str) for a, b in zip(template.segments, template.segments[1:], strict=False))
    assert template.variables == tuple(segment for segment in template.segments if isinstance(segment, Variable))


@given(texts)
def test_text_without_any_of_the_forms_is_unchanged(text):
    for form in ("$(type)", "$(rank)", "$(replicas[", "$(service."):
        text = text.replace(form, "")
    if not any(form in text for form in ("$(type)", "$(rank)", "$(replicas[", "$(service.")):
        assert filled(text) == text
        assert parse(text).segments == ((text,) if text else ())


@given(texts, st.data())
def test_text_may_be_cut_anywhere_but_inside_a_token(text, data):
    read = list(steps(text, VALUES))
    cut = len("".join(read[: data.draw(st.integers(0, len(read)))]))
    assert filled(text[:cut]) + filled(text[cut:]) == filled(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part",
    [
        "$",
        "$(",
        "$$(",
        "$(rank",
        "$(replicas[",
        "$(replicas[a",
        "$(replicas[a-",
        f"$(replicas[{'a' * 63}",
        "$(service.",
        "$(service.port[",
        "$(service.port[0].hos",
        "$(service.port[0",
        "$(replicas[a]",
    ],
)
def test_a_megabyte_of_beginnings_takes_no_longer_than_a_megabyte(part):
    text = part * (MEGABYTE // len(part))
    assert filled(text) == text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("start", ["$(replicas[", "$(service.", "$(service.port[", "$(service.worker["])
@pytest.mark.parametrize("filler", ["a", "-", "0", "a-", "0."])
def test_a_name_of_a_megabyte_is_only_text(start, filler):
    text = start + filler * (MEGABYTE // len(filler))
    assert filled(text) == text


@pytest.mark.timeout(60)
def test_deep_nesting_and_many_variables_are_only_long():
    deep = MEGABYTE // 8
    assert filled("$(echo " * deep + "$(rank)" + ")" * deep) == "$(echo " * deep + "3" + ")" * deep
    many = "".join(f"$(replicas[t{number}])$(rank)" for number in range(20_000))
    assert filled(many) == many.replace("$(rank)", "3")
    assert len(unresolved(many)) == 20_000


# ------------------------------------------------------------------------------------------------ stencils


def test_a_stencil_is_filled_in_at_its_markers():
    stencil = Stencil(b"a<1>b<2>c<1>", [b"<1>", b"<2>"])
    assert stencil.fill(b"x", b"y") == b"axbycx"
    assert stencil.fill(b"", b"<1>") == b"ab<1>c"
    assert Stencil(b"<1><1>", [b"<1>"]).fill(b"7") == b"77"
    assert Stencil(b"nothing", [b"<1>"]).fill(b"7") == b"nothing"


@pytest.mark.parametrize("number", [999, 1_001, 5_000])
def test_a_stencil_of_many_holes_is_filled_in_like_any_other(number):
    text = b"".join(b"a%d<%d>" % (n, n % 2) for n in range(number)) + b"end"
    stencil = Stencil(text, [b"<0>", b"<1>"])
    for _ in range(2):
        assert stencil.fill(b"x", b"") == text.replace(b"<0>", b"x").replace(b"<1>", b"")
    assert number < FEW or stencil.weight < 2 * len(text) + 400


@given(st.lists(st.sampled_from([b"a", b"%d", b"\\1", b".", b"\x00", b"(", b"<1", b"<1.>", b"<2.>"])), st.binary(), st.binary())
def test_filling_a_stencil_is_replacing(parts, first, second):
    values = {b"<1.>": first, b"<2.>": second}
    assert Stencil(b"".join(parts), list(values)).fill(first, second) == b"".join(values.get(part, part) for part in parts)
