"""The kinds of the project on a cluster."""

from pathlib import Path
from typing import Any, Final

import yaml

from genericjob.api import names
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key, Resource, raw

from .clusters import eventually

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
GENERIC_JOBS: Final[Resource[dict[str, Any]]] = raw(names.GROUP, names.VERSION, names.PLURAL, names.KIND)


def install(api: Api) -> None:
    """Put every definition of `manifests/crd` on a cluster, in place of older ones, and return once their objects can be made."""
    for path in sorted((MANIFESTS / "crd").glob("*.yaml")):
        establish(api, yaml.safe_load(path.read_text()))
    eventually(lambda: api.list(GENERIC_JOBS, limit=1))


def establish(api: Api, body: dict[str, Any]) -> None:
    """Put one definition on a cluster, in place of an older one, and return once the server says that it is established."""
    key = Key("", body["metadata"]["name"])
    try:
        api.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    except ApiError as error:
        if not error.already_exists:
            raise
        body["metadata"]["resourceVersion"] = api.get(CUSTOM_RESOURCE_DEFINITIONS, key)["metadata"]["resourceVersion"]
        api.replace(CUSTOM_RESOURCE_DEFINITIONS, key, body)
    eventually(lambda: conditions(api, key).get("Established") == "True")


def conditions(api: Api, key: Key) -> dict[str, str]:
    """What the server says of a definition: the status of each condition."""
    told = api.get(CUSTOM_RESOURCE_DEFINITIONS, key).get("status", {})
    return {each["type"]: each["status"] for each in told.get("conditions") or ()}
