"""What people copy is what works: the manifests of the README, and the examples."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from genericjob.api.names import API_VERSION, KIND
from genericjob.api.spec import parse
from genericjob.cli.app import app

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


# ------------------------------------------------------------------------------------------------ the first page


def test_the_first_page_shows_a_picture_that_the_command_it_names_has_made():
    (picture,) = re.findall(r"^!\[.+\]\((\S+)\)$", README, re.MULTILINE)
    (recipe,) = re.findall(r"^picture:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "`make picture` draws it" in README
    assert "The picture is what `make run` prints" in README
    assert recipe.strip().endswith(f"-m capture --output {picture} make run")
    drawn = (ROOT / picture).read_text().replace("&#160;", " ")
    for text in ("make run", "together we found pi: 3.14159", "hello succeeded: the rule"):
        assert text in drawn
    assert str(ROOT) not in drawn


def test_the_two_commands_come_before_everything_that_is_longer_and_then_what_a_team_needs():
    headings = re.findall(r"^## (.+)$", README, re.MULTILINE)
    assert headings[:2] == ["Two commands", "Installing for a team"]
    assert headings.index("Where to go next") < headings.index("Dependencies")


def test_a_row_of_the_table_of_peers_has_a_word_on_each_of_them():
    table = README.split("## Beside its peers")[1].split("##")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    assert {len(row) for row in rows} == {7}
    assert all(cell.strip() for row in rows[1:] for cell in row)
    ahead = [sum("**" in row[column] for row in rows) for column in range(1, 7)]
    assert ahead[0]
    assert sum(ahead[1:]) > 5  # it says where others are better


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)[^):]*\)", README))))
def test_links_of_the_readme_lead_somewhere(target):
    assert (ROOT / target).exists()


def test_the_readme_names_commands_that_there_are():
    table = README.split("## The command line")[1].split("\n## ")[0]
    known = set(get_command(app).commands)
    for words in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE):
        for command in re.findall(r"`(?:genericjob )?([a-z]+)", words):
            assert command in known
