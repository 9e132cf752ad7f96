"""How the server says no: one function for each of its refusals, with the code and reason of the real one."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from genericjob.reconcile.errors import ApiError, Cause

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Named(Protocol):
    """What messages call a kind."""

    @property
    def group(self) -> str:
        """`batch`; empty for the core group."""
        ...

    @property
    def kind(self) -> str:
        """`Pod`, `Job`."""
        ...

    @property
    def full_name(self) -> str:
        """`pods`, `jobs.batch`."""
        ...

    @property
    def full_kind(self) -> str:
        """`Pod`, `Job.batch`."""
        ...


class InvalidError(ApiError):
    """A refusal that kubectl tells in words of its own, for which it has to know of what."""

    def __init__(self, kind: Named, name: str, told: str, causes: Sequence[Cause]) -> None:
        super().__init__(422, "Invalid", f'{kind.full_kind} "{name}" is invalid: {told}', causes=causes)
        self.about: Mapping[str, str] = {"name": name, "group": kind.group, "kind": kind.kind}


def no_such_kind(name: str) -> ApiError:
    """Nothing is served at this address."""
    return ApiError(404, "NotFound", f"the server could not find the requested resource ({name})")


def not_found(full_name: str, name: str) -> ApiError:
    """No object has that name."""
    return ApiError(404, "NotFound", f'{full_name} "{name}" not found')


def not_allowed(message: str) -> ApiError:
    """The address exists, the verb does not."""
    return ApiError(405, "MethodNotAllowed", message)


def bad_request(message: str) -> ApiError:
    """The request makes no sense, whatever is stored."""
    return ApiError(400, "BadRequest", message)


def forbidden(kind: Named, name: str, why: str, causes: Sequence[Cause] = ()) -> ApiError:
    """Admission said no."""
    return ApiError(403, "Forbidden", f'{kind.full_name} "{name}" is forbidden: {why}', causes=causes)


def bad_option(name: str, value: object) -> ApiError:
    """No such value of a request's option."""
    cause = Cause(name, f"Unsupported value: {value!r}", "FieldValueNotSupported")
    return ApiError(422, "Invalid", f"the options of the request are invalid: {name}: {cause.message}", causes=[cause])


def too_large(limit: int) -> ApiError:
    """A body that is not even read."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def already_exists(kind: Named, name: str, *, deleting: bool) -> ApiError:
    """A create met an object of the same name."""
    return ApiError(409, "AlreadyExists", f'{"object is being deleted: " if deleting else ""}{kind.full_name} "{name}" already exists')


def conflict(kind: Named, name: str, why: str) -> ApiError:
    """A precondition did not hold."""
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {kind.full_name} "{name}": {why}')


def invalid(kind: Named, name: str, causes: Sequence[Cause]) -> ApiError:
    """The object breaks its kind's rules."""
    told = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return InvalidError(kind, name, f"[{told}]" if len(causes) > 1 else told, causes)


def does_not_apply(why: object) -> ApiError:
    """A patch that cannot be applied."""
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def unreadable_patch(why: object) -> ApiError:
    """A patch whose result cannot be read."""
    return ApiError(422, "Invalid", f"the patched object cannot be read: {why}", causes=[Cause("patch", str(why), "FieldValueInvalid")])


def expired(message: str) -> ApiError:
    """History does not reach back so far."""
    return ApiError(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """Somebody asks for the future."""
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", text, retry_after=1.0, causes=[Cause("", "Too large resource version", "ResourceVersionTooLarge")])


def unexpected(message: str, *, wrote: bool) -> ApiError:
    """What the real server forgot to refuse properly: a 500, after which nobody can say what happened."""
    return ApiError(500, "InternalError", message, unknown=wrote)


# ------------------------------------------------------------------------------------------------ causes


def wrong(field: str, value: object, why: str) -> Cause:
    """A field has a value it must not have."""
    return Cause(field, f"Invalid value: {value!r}: {why}", "FieldValueInvalid")


def missing(field: str, why: str = "") -> Cause:
    """A field must be there."""
    return Cause(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def denied(field: str, why: str) -> Cause:
    """A field must not be touched."""
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def terminating(namespace: str) -> Cause:
    """The namespace takes nothing new."""
    return Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
