"""What people copy is what works: the manifests of the README, and the examples."""

import re
from pathlib import Path

import pytest
import yaml

from genericjob.api.names import API_VERSION, KIND
from genericjob.api.spec import parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = {
    f"README.md:{README.count(chr(10), 0, found.start()) + 1}": found[1]
    for found in re.finditer(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
}
EXAMPLES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "examples").rglob("*.yaml"))}


def jobs(text):
    """The GenericJobs among the documents of a text."""
    return [found for found in yaml.safe_load_all(text) if found["kind"] == KIND]


def test_every_yaml_block_of_the_readme_is_found():
    assert len(BLOCKS) == len(re.findall(r"^\s*```ya?ml", README, re.MULTILINE)) > 0


@pytest.mark.parametrize("text", BLOCKS.values(), ids=BLOCKS)
def test_every_yaml_block_of_the_readme_is_a_manifest_that_is_understood(text):
    for job in jobs(text):
        assert job["apiVersion"] == API_VERSION
        parse(job["spec"])


@pytest.mark.parametrize("text", EXAMPLES.values(), ids=EXAMPLES)
def test_every_example_is_a_job_that_is_understood(text):
    assert jobs(text)
    for job in jobs(text):
        assert job["apiVersion"] == API_VERSION
        parse(job["spec"])


def test_the_job_of_the_readme_says_what_it_seems_to_say():
    """A flow list splits at commas, and YAML has its own idea of brackets: each word of the command is one word."""
    (job,) = [job for text in BLOCKS.values() for job in jobs(text)]
    (worker,) = parse(job["spec"]).replica_specs
    (container,) = worker.template["spec"]["containers"]
    assert container["command"] == [
        "python3",
        "train.py",
        "--rank=$(rank)",
        "--world=$(replicas[worker])",
        "--master=$(service.worker[0].host):$(service.port[http])",
    ]
