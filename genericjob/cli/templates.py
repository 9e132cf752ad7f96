"""What becomes of a job's templates: the pods and services that the controller would make, and what it and the server would say of them.

All pods of a type differ in numbers alone, so one of each type stands for all. It is made by the controller's own code and given to the API
in memory, which knows an outline of pods; what lies deeper only a server can judge.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from genericjob.api.names import JobIdentity, replica_name
from genericjob.api.spec import GenericJobSpec, InvalidSpecError, ReplicaSpec
from genericjob.api.spec import parse as parse_spec
from genericjob.jobs.pods import PodBodies, compile_pods, scope_of
from genericjob.jobs.services import compile_services
from genericjob.local import shapes
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES
from genericjob.templating import Scope
from genericjob.templating import parse as parse_text
from genericjob.templating.lexer import Form, Variable

from .outlines import complaints
from .wording import Finding, Severity, unknown, wrong_type

ANYBODY = JobIdentity("default", "j", "uid")
"""In the place of the job: what is wrong with its own name is not the template's fault. So it has the shortest."""
PARTS = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
FORMS = {
    "type": "$(type)",
    "rank": "$(rank)",
    "replicas": "$(replicas[TYPE])",
    "service": "$(service.TYPE[RANK].host) or $(service.port[NAME])",
}
"""The variables, by how they begin."""
_WORD = re.compile(r"(?<!\$)\$\(([^\s()$]{1,100})\)")
_POD = shapes.POD.sections["spec"].parts


def findings(spec: GenericJobSpec) -> Iterator[Finding]:
    """All there is to say, by the fields of the job."""
    api = MemoryApi()
    for number, part in enumerate(spec.replica_specs):
        place = f"spec.replicaSpecs[{number}].template"
        yield from (
            Finding(f"{place}.{name}", unknown(name, PARTS, "template.spec" if name in _POD else ""), "warning")
            for name in part.template
            if name not in PARTS
        )
        yield from _pods(api, spec, part, place)
    yield from _variables(spec)
    yield from _services(api, spec)


def findings_alone(spec: Any) -> Iterator[Finding]:
    """What can be said of the templates of a spec that is wrong elsewhere."""
    api = MemoryApi()
    specs = spec.get("replicaSpecs") if isinstance(spec, Mapping) else None
    for number, one in enumerate(specs if isinstance(specs, list) else ()):
        if isinstance(one, Mapping) and isinstance(one.get("template"), dict):
            alone = parse_spec({"replicaSpecs": [{"type": "t", "template": one["template"]}]})
            yield from _pods(api, alone, alone.replica_specs[0], f"spec.replicaSpecs[{number}].template")


# ------------------------------------------------------------------------------------------------ pods


def _pods(api: MemoryApi, spec: GenericJobSpec, part: ReplicaSpec, place: str) -> Iterator[Finding]:
    pause = spec.run_mode.pause if spec.run_mode else None
    again = pause is not None and not spec.debugged and any(one.type == part.type for one in pause.resume_specs)
    for resumed in (False, True) if again else (False,):
        try:
            compiled = _compiled(spec, part.type, resumed=resumed)
        except InvalidSpecError as error:
            yield Finding(place, str(error))
            return
        if not resumed:
            yield from (_remark(text, place) for text in compiled.remarks)
        pod = msgspec.json.decode(compiled.body(0, epoch=0, attempt=0, charged=0))
        # WITHOUT REPLICAS no pod is made, and nothing is refused; but there may be some tomorrow.
        yield from _judged(api, pod, place, "error" if part.replicas else "warning")


def _compiled(spec: GenericJobSpec, type: str, *, resumed: bool) -> PodBodies:
    return compile_pods(job=ANYBODY, spec=spec, type=type, resumed=resumed, host=_host, markers=("0", "1", "2", "3"))


def _host(type: str, rank: int) -> str:
    return replica_name(ANYBODY.name, type, rank)


def _remark(text: str, place: str) -> Finding:
    """What of the template is not followed, at the field it is about."""
    text = text.partition(": ")[2]
    label = re.match(r"the (label|annotation) (\S+) is", text)
    field = f"metadata.{label[1]}s.{label[2]}" if label else f"spec.{text.partition(' ')[0]}"
    return Finding(f"{place}.{field}", text, "warning")


def _judged(api: MemoryApi, pod: dict[str, Any], place: str, severity: Severity) -> Iterator[Finding]:
    """What the server says of a pod, by the fields of its template."""
    if not isinstance(pod["metadata"], dict):
        yield Finding(f"{place}.metadata", wrong_type(pod["metadata"], ["object"]), severity)
        pod["metadata"] = {}
    pod["metadata"] |= {"name": "", "generateName": "pod-"}
    for found in complaints(api, RAW_PODS, pod, ANYBODY.namespace):
        field = f"{place}.{found.field}" if found.field else place
        yield Finding(field, found.message, found.severity if found.severity == "warning" else severity)


# ------------------------------------------------------------------------------------------------ services


def _services(api: MemoryApi, spec: GenericJobSpec) -> Iterator[Finding]:
    if spec.service is None or not spec.service.ports:
        return
    body = compile_services(job=ANYBODY, service=spec.service, type=spec.replica_specs[0].type, marker="0").body(0)
    for found in complaints(api, RAW_SERVICES, msgspec.json.decode(body), ANYBODY.namespace):
        yield Finding(found.field.replace("spec.", "spec.service.", 1), found.message, found.severity)


# ------------------------------------------------------------------------------------------------ variables


def _variables(spec: GenericJobSpec) -> Iterator[Finding]:
    """Variables that mean nothing in the job."""
    types = {part.type for part in spec.replica_specs}
    for place, type, container in _texts(spec):
        if type not in types:
            continue
        scope, own = scope_of(spec, type=type, rank="0", host=_host), _environment(container)
        for path, text in _filled_in(container):
            meaningless: dict[str, dict[str, None]] = {}
            for variable in parse_text(text).variables:
                if scope.value(variable) is None:
                    meaningless.setdefault(_why(variable, scope), {})[variable.text] = None
            for why, names in meaningless.items():
                verbs = "means nothing here and stays as it is" if len(names) == 1 else "mean nothing here and stay as they are"
                yield Finding(f"{place}.{path}", f"{', '.join(names)} {verbs}: {why}", "warning")
            for word, form in _nearly(text, own):
                yield Finding(f"{place}.{path}", f"$({word}) is no variable and stays as it is; did you mean {form}?", "warning")


def _nearly(text: str, own: frozenset[str] | None) -> Iterator[tuple[str, str]]:
    """Words that look like a variable and are none. Those of a shell are not, and not a container's own, which the kubelet replaces."""
    rest = "".join(each if isinstance(each, str) else " " for each in parse_text(text).segments)
    for word in dict.fromkeys(_WORD.findall(rest)):
        near = get_close_matches(re.split(r"[.\[]", word)[0].casefold(), FORMS, n=1, cutoff=0.75)
        theirs = word.isidentifier() if own is None else word in own
        if near and not theirs:
            yield word, FORMS[near[0]]


def _environment(container: Any) -> frozenset[str] | None:
    """Names of a container's own variables; None if nobody can know them here."""
    if not isinstance(container, Mapping) or container.get("envFrom") or "name" not in container:
        return None
    found = container.get("env")
    return frozenset(str(one.get("name")) for one in (found if isinstance(found, list) else ()) if isinstance(one, Mapping))


def _texts(spec: GenericJobSpec) -> Iterator[tuple[str, str, Any]]:
    """Where there are texts to be filled in: the field, the type of replica, and what has the shape of a container."""
    for number, part in enumerate(spec.replica_specs):
        pod = part.template.get("spec")
        for group in ("initContainers", "containers") if isinstance(pod, Mapping) else ():
            found = pod.get(group) if isinstance(pod, Mapping) else None
            for index, container in enumerate(found if isinstance(found, list) else ()):
                yield f"spec.replicaSpecs[{number}].template.spec.{group}[{index}]", part.type, container
    mode = spec.run_mode
    for number, debug in enumerate(mode.debug.replica_specs if mode and mode.debug else ()):
        yield f"spec.runMode.debug.replicaSpecs[{number}]", debug.type, {"command": [*(debug.command or ())]}
    for number, resume in enumerate(mode.pause.resume_specs if mode and mode.pause else ()):
        words = {"command": [*(resume.command or ())], "args": [*(resume.args or ())]}
        yield f"spec.runMode.pause.resumeSpecs[{number}]", resume.type, words


def _filled_in(container: Any) -> Iterator[tuple[str, str]]:
    """The texts of a container in which variables are replaced."""
    if not isinstance(container, Mapping):
        return
    for field in ("command", "args", "env"):
        found = container.get(field)
        for index, one in enumerate(found if isinstance(found, list) else ()):
            text = one.get("value") if field == "env" and isinstance(one, Mapping) else one
            if isinstance(text, str):
                yield f"{field}[{index}]{'.value' if field == 'env' else ''}", text


def _why(variable: Variable, scope: Scope) -> str:
    if variable.form in (Form.HOST, Form.PORT) and scope.host is None:
        return "the job has no spec.service with ports"
    if variable.form is Form.PORT:
        return f"no port is called {variable.name}"
    if variable.name not in scope.replicas:
        return f"there is no type {variable.name}"
    return f"type {variable.name} has no rank {variable.rank[:20]}"
