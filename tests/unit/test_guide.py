"""The guide is true: its manifests are understood, its links lead somewhere, and nothing that users meet is missing in it."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml
from pydantic import BaseModel

from genericjob.api import spec
from genericjob.api.crd import definition
from genericjob.api.names import ANNOTATIONS, API_VERSION, CONDITION_TYPES, KIND, NAME_LIMIT, PHASES, Reason
from genericjob.api.status import GenericJobStatus, Task
from genericjob.jobs import ledger, status, tasks

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / name).read_text() for name in ("docs/guide.md", "docs/contract.md", "examples/README.md")}
GUIDE = PAGES["docs/guide.md"]
BLOCKS = {
    f"line {GUIDE.count(chr(10), 0, found.start()) + 1}": yaml.safe_load(found[1])
    for found in re.finditer(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
}
QUOTA = next(block for block in BLOCKS.values() if isinstance(block, dict) and block.get("kind") == "ResourceQuota")
REPLICAS = {"type": "worker", "template": {}}
REASONS = {name: value for name, value in vars(Reason).items() if name.isupper()}


def spec_of(block):
    """The spec that a block shows, or shows a part of."""
    if isinstance(block, list):
        return {"replicaSpecs": [REPLICAS | each for each in block]}
    return {"replicaSpecs": [REPLICAS], **block["spec"]}


def spec_fields(model):
    """The names of all fields below a model, as manifests spell them."""
    for field in model.model_fields.values():
        yield field.alias
        for below in models_in(field.annotation):
            yield from spec_fields(below)


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from models_in(part)


def has_word(name):
    return re.search(rf"\b{re.escape(name)}\b", GUIDE) is not None


def has_name(name):
    """Whether a word is there as a name, not by chance."""
    return f"`{name}`" in GUIDE


def anchor(heading):
    """What a link to a heading is called."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


# ------------------------------------------------------------------------------------------------ manifests and links


def test_every_manifest_of_the_guide_is_found():
    assert len(BLOCKS) == len(re.findall(r"^\s*```ya?ml", GUIDE, re.MULTILINE)) > 5


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_every_manifest_of_the_guide_is_understood_to_the_last_field(block):
    if block == QUOTA:
        return
    if isinstance(block, dict) and "kind" in block:
        assert (block["apiVersion"], block["kind"]) == (API_VERSION, KIND)
    given = spec_of(block)
    assert spec.parse(given).model_dump(mode="json", by_alias=True, exclude_unset=True) == given


def test_the_quota_counts_jobs_by_the_name_of_their_definition():
    assert (QUOTA["apiVersion"], list(QUOTA["spec"])) == ("v1", ["hard"])
    assert list(QUOTA["spec"]["hard"]) == [f"count/{definition()['metadata']['name']}", "count/pods"]
    assert all(isinstance(amount, str) and amount.isdigit() for amount in QUOTA["spec"]["hard"].values())


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", PAGES[page])
    for link in links:
        if link.startswith("http"):
            continue
        file, _, place = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.is_file(), link
        if place:
            assert place in {anchor(each) for each in re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)}, link


def test_the_guide_leads_to_every_example():
    assert [each.name for each in sorted((ROOT / "examples").glob("*.yaml")) if f"(../examples/{each.name})" not in GUIDE] == []


def test_the_tests_that_the_contract_names_exist():
    files = [*(ROOT / "tests").rglob("*.py")]
    contract = PAGES["docs/contract.md"]
    named = set(re.findall(r"`(\w+\.py)`", contract))
    assert sorted(named - {path.name for path in files}) == []
    written = set(re.findall(r"^def (test_\w+)", "".join(path.read_text() for path in files if path.name in named), re.MULTILINE))
    assert sorted(set(re.findall(r"`(test_\w+)`", contract)) - written) == []


# ------------------------------------------------------------------------------------------------ nothing is missing


def test_every_field_that_users_write_is_mentioned():
    assert [name for name in dict.fromkeys(spec_fields(spec.GenericJobSpec)) if not has_word(name)] == []


def test_every_field_that_users_read_is_mentioned():
    names = [field.encode_name for struct in (GenericJobStatus, Task) for field in msgspec.structs.fields(struct)]
    assert [name for name in dict.fromkeys(names) if not has_word(name)] == []


def test_every_reason_that_the_controller_gives_is_explained():
    source = "".join(path.read_text() for path in (ROOT / "genericjob" / "jobs").glob("*.py"))
    given = {value for name, value in REASONS.items() if f"Reason.{name}" in source}
    assert len(given) > 20
    assert sorted(value for value in given if not has_name(value)) == []


def test_phases_conditions_and_annotations_are_explained():
    assert [name for name in (*PHASES, *CONDITION_TYPES, *ANNOTATIONS) if not has_name(name)] == []


# ------------------------------------------------------------------------------------------------ nothing is invented


def test_the_columns_shown_are_those_of_the_definition():
    columns = definition()["spec"]["versions"][0]["additionalPrinterColumns"]
    (head,) = {" ".join(line.split()) for line in re.findall(r"^\$ kubectl get gj\n(NAME.*)$", GUIDE, re.MULTILINE)}
    assert head == " ".join(["NAME", *(each["name"].upper() for each in columns)])


def test_the_back_off_shown_is_the_one_that_is_kept():
    waits = {number: ledger.back_off(number).total_seconds() for number in (2, 3, 4, 5, 10)}
    row = " | ".join("…" if wait is None else f"{wait:g} s" for wait in (*[waits[n] for n in (2, 3, 4, 5)], None, waits[10]))
    assert f"| waits | not at all | {row} | {ledger.LONGEST:g} s |" in GUIDE
    assert ledger.back_off(1).total_seconds() == 0
    assert ledger.back_off(11).total_seconds() == ledger.LONGEST


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("replicas of a job, all types together", f"{spec.MAX_REPLICAS:,}"),
        ("types", f"{spec.MAX_TYPES:,}"),
        ("rules", f"{spec.MAX_RULES:,}"),
        ("ports", f"{spec.MAX_PORTS:,}"),
        ("`<job>-<type>-<rank>`", f"{NAME_LIMIT} characters"),
        ("replicas listed in `status.tasks[].replicas`", f"up to {tasks.LISTED:,} containers"),
        ("replicas listed in `status.tasks[].replicas`", f"{tasks.LISTED_OF_MANY} at most"),
        ("failures with details", f"{tasks.DETAILED} ranks"),
        ("messages", f"{status.MESSAGE_LIMIT:,} characters"),
        ("messages", f"{tasks.DETAIL_LIMIT} bytes"),
    ],
)
def test_the_limits_shown_are_those_that_hold(what, limit):
    (row,) = re.findall(rf"^\| {re.escape(what)} \|(.*)\|$", GUIDE, re.MULTILINE)
    assert limit in row
