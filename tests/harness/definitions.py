"""The kinds of the project on a cluster."""

from functools import partial
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
        body = yaml.safe_load(path.read_text())
        key = Key("", body["metadata"]["name"])
        try:
            api.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        except ApiError as error:
            if not error.already_exists:
                raise
            body["metadata"]["resourceVersion"] = api.get(CUSTOM_RESOURCE_DEFINITIONS, key)["metadata"]["resourceVersion"]
            api.replace(CUSTOM_RESOURCE_DEFINITIONS, key, body)
        eventually(partial(_is_established, api, key))
    eventually(lambda: api.list(GENERIC_JOBS, limit=1))


def _is_established(api: Api, key: Key) -> bool:
    return conditions(api, key).get("Established") == "True"


def conditions(api: Api, key: Key) -> dict[str, str]:
    """What the server says of a definition: the status of each condition."""
    told = api.get(CUSTOM_RESOURCE_DEFINITIONS, key).get("status", {})
    return {each["type"]: each["status"] for each in told.get("conditions") or ()}
