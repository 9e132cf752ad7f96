"""Manifests that are let pass and manifests that are refused, kept as files in `tests/corpus`: one corpus for every level of tests.

The first line of a file is a comment. Where the file is accepted it says what is shown; where it is refused, the field that is named and
words that are told: `# spec.suspend: must be of type boolean`. A second comment line that begins with "Only the server sees it" says why
the models let it pass. A change is two or more documents: what a job is, with its status if that matters, and what it becomes; of a refused
one all but the last are let pass. A job whose pods are refused is let pass itself: nobody but who makes the pods looks into templates.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

CORPUS: Final = Path(__file__).parents[1] / "corpus"
BLIND: Final = "Only the server sees it: "


@dataclass(frozen=True)
class Manifest:
    """One file."""

    path: Path
    comments: tuple[str, ...]
    documents: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return self.path.stem

    @property
    def job(self) -> dict[str, Any]:
        """The only document."""
        (job,) = self.documents
        return job

    @property
    def field(self) -> str:
        """What a refusal is about."""
        return self.comments[0].partition(": ")[0]

    @property
    def words(self) -> str:
        """What a refusal says of it."""
        return self.comments[0].partition(": ")[2]

    @property
    def only_the_server_sees_it(self) -> bool:
        """Whether the models let it pass."""
        return self.comments[1:2] != () and self.comments[1].startswith(BLIND)


def manifests(folder: str) -> list[Manifest]:
    """The files of a folder of the corpus, by name."""
    return [_read(path) for path in sorted((CORPUS / folder).glob("*.yaml"))]


def _read(path: Path) -> Manifest:
    text = path.read_text()
    comments = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        comments.append(line.removeprefix("# "))
    return Manifest(path, tuple(comments), tuple(yaml.safe_load_all(text)))
