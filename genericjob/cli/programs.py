"""Containers that cannot become programs of this machine, as far as that is known before anything starts.

A container may leave it to its image what to run: whoever has no image does not know its entry point. Or its program or
its working directory does not exist on this machine. No restart would change either. What is not known before is not
judged: paths with variables in them, paths in volumes, and what an init container or a PATH of its own may bring.

All ranks together may ask for more GPUs than there are.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from genericjob.api import names
from genericjob.api.spec import parse
from genericjob.jobs.modes import mode_of
from genericjob.local.cgroups import limits_of
from genericjob.local.gpus import VARIABLE, asked_by_pod
from genericjob.local.keepers import where
from genericjob.local.obstacles import obstacle
from genericjob.local.warden import places

from .documents import BadInputError, Document, Problem
from .overrides import REPLICAS
from .wording import Severity

INTERPRETER = re.compile(r"(python|pypy)[0-9.]*|(ba|da|z)?sh")
SCRIPTS = (".py", ".sh")


def check_programs(documents: Sequence[Document]) -> None:
    """Raise BadInputError with all containers of jobs that have no program, or one that does not exist."""
    jobs = (document for document in documents if document.kind == names.KIND)
    wrong = [document.told(problem) for document in jobs for problem in _problems(document) if problem.severity == "error"]
    if wrong:
        raise BadInputError("\n".join(wrong))


def script_remarks(documents: Sequence[Document]) -> list[str]:
    """Return what an interpreter will say of its script, before it does: that there is none."""
    jobs = [document for document in documents if document.kind == names.KIND]
    return [document.told(problem) for document in jobs for problem in _problems(document) if problem.severity == "warning"]


def _problems(document: Document) -> Iterator[Problem]:
    spec = parse(document.body["spec"])
    for number, part in enumerate(spec.replica_specs):
        # AS THE FIRST PODS WILL BE: a job that is debugged waits instead of working, and one that begins paused is resumed before it runs.
        template = mode_of(spec, type=part.type, resumed=spec.paused).applied(part.template)
        pod = template["spec"]
        for place, container in _containers(pod) if part.replicas else ():
            field = f"spec.replicaSpecs[{number}].template.spec.{place}"
            if not container.get("command"):
                image = container.get("image") or "the image"
                text = f"is missing, and what {image} runs by itself is not known here: write the program into it"
                yield Problem(f"{field}.command", text, document.line(field), "error")
            elif not pod.get("initContainers") or place == "initContainers[0]":
                for name, text, severity in _missing(container, _own_directories(pod), os.path.dirname(document.file)):
                    at = f"{field}.{name}"
                    yield Problem(at, text, document.line(at), severity)


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(name) or ()):
            yield f"{name}[{number}]", container


# ------------------------------------------------------------------------------------------------ GPUs and limits


def have_limits(documents: Sequence[Document]) -> bool:
    """Return whether any container of a job has a limit that control groups can hold."""
    parts = (part for document in documents if document.kind == names.KIND for part in parse(document.body["spec"]).replica_specs)
    return any(limits_of(container) for part in parts for _, container in _containers(part.template["spec"]))


def ask_for_gpus(documents: Sequence[Document]) -> bool:
    """Return whether any rank asks for GPUs."""
    return any(each for _, each in _asking(documents))


def check_gpus(documents: Sequence[Document], there: Sequence[str]) -> None:
    """Raise BadInputError if there are GPUs, and the ranks ask for more of them in all."""
    asking = [pair for pair in _asking(documents) if pair[1]]
    wanted = sum(each.gpus * each.replicas for _, found in asking for each in found)
    if not there or wanted <= len(there):
        return
    document, (first, *_) = asking[0]
    told = ", ".join(f"{each.type}: {each.replicas} x {each.gpus}" for _, found in asking for each in found)
    text = (
        f"the ranks ask for {wanted} GPUs in all ({told}), and this machine has {len(there)} ({','.join(there)}): "
        f"--set {REPLICAS}{first.type}=N runs fewer ranks, --env {VARIABLE}={','.join(there)} lets all share them"
    )
    raise BadInputError(document.told(Problem(first.field, text, document.line(first.field), "error")))


class _Asking(NamedTuple):
    type: str
    replicas: int
    gpus: int
    """GPUs of each."""
    field: str


def _asking(documents: Sequence[Document]) -> Iterator[tuple[Document, list[_Asking]]]:
    for document in documents:
        if document.kind == names.KIND:
            parts = enumerate(parse(document.body["spec"]).replica_specs)
            found = ((number, part, asked_by_pod(part.template["spec"])) for number, part in parts)
            field = "spec.replicaSpecs[{}].template.spec.containers[0].resources"
            yield document, [_Asking(part.type, part.replicas, count, field.format(number)) for number, part, count in found if count]


# ------------------------------------------------------------------------------------------------ what does not exist


def _missing(container: Mapping[str, Any], own: Sequence[str], beside: str) -> Iterator[tuple[str, str, Severity]]:
    """Fields of a container that name what is not there, and why it is not; `beside` is the directory of the manifest."""
    directory, program = container.get("workingDir") or "", str(container["command"][0])
    path = os.path.join(directory, program)
    if _within(directory, own):
        return
    if directory and not os.path.isdir(directory):
        what = "is not a directory" if os.path.exists(directory) else "does not exist"
        yield "workingDir", f"{directory} {what} on this machine{_where(directory, beside)}", "error"
    elif "$" in program:
        return
    elif "/" in program:
        if _within(path, own):
            return
        if not os.path.exists(path):
            yield "command", f"there is no program {program!r} on this machine{_where(path, beside)}", "error"
        elif why := obstacle(path, directory):
            yield "command", f"{program!r} cannot be started: {why}", "error"
    elif not any(places(os.fsencode(program), _search())) and not _sets_path(container):
        yield "command", f"there is no program {program!r} on this machine: it is in no directory of $PATH", "error"
    elif (script := _script(container)) and not _within(path := os.path.join(directory, script), own) and not os.path.exists(path):
        yield "command", f"there is no file {script!r} on this machine{_where(path, beside)}", "warning"


def _script(container: Mapping[str, Any]) -> str:
    """The script that an interpreter is to run, if that is certain."""
    program, *words = (str(word) for word in (*container["command"], *(container.get("args") or ())))
    script = next((word for word in words if not word.startswith("-")), "") if INTERPRETER.fullmatch(program) else ""
    inline = any(re.fullmatch("-[A-Za-z]*[cem]", word) for word in words[: words.index(script)]) if script else True
    return script if not inline and "$" not in script and script.endswith(SCRIPTS) else ""


def _where(path: str, beside: str) -> str:
    return where(path, beside) if beside and os.path.exists(os.path.join(beside, path)) else where(path)


def _within(path: str, directories: Sequence[str]) -> bool:
    """Whether a path is one of these directories, or in one of them."""
    return any(os.path.normpath(path) == each or path.startswith(f"{each}/") for each in directories)


def _own_directories(spec: Mapping[str, Any]) -> list[str]:
    """Directories that a pod brings along."""
    mounts = [mount.get("mountPath") for _, container in _containers(spec) for mount in container.get("volumeMounts") or ()]
    hosts = [(volume.get("hostPath") or {}).get("path") for volume in spec.get("volumes") or ()]
    return [os.path.normpath(path) for path in (*mounts, *hosts) if path]


def _sets_path(container: Mapping[str, Any]) -> bool:
    return bool(container.get("envFrom")) or any(variable.get("name") == "PATH" for variable in container.get("env") or ())


def _search() -> dict[bytes, bytes]:
    return {b"PATH": os.fsencode(os.environ.get("PATH", os.defpath))}
