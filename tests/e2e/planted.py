"""Violations, put into a real audit log: a judge who finds nothing in it must find these."""

from copy import deepcopy

import msgspec

from harness.verdicts import CONTROLLER
from harness.verdicts.entries import CREDENTIAL

ANOTHER = "JTI=another"


class Forgery:
    """A log that is changed: a few lines more, less, or different."""

    def __init__(self, path, namespaces):
        self.lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        self._namespaces = namespaces
        """Of scenarios, by their name."""
        self._version = max(_version(line) for line in self.lines)

    def find(self, scenario, verb, resource, subresource="", name=""):
        """What the controller did in a scenario, in the order in which it was stored."""
        wanted = (self._namespaces[scenario], verb, resource, subresource)
        found = []
        for line in self.lines:
            about = line.get("objectRef", {})
            which = about.get("namespace"), line["verb"], about.get("resource"), about.get("subresource", "")
            ours = line["user"]["username"] == CONTROLLER and line["responseStatus"]["code"] < 300
            if ours and which == wanted and name in about.get("name", ""):
                found.append(line)
        return sorted(found, key=_version)

    def statuses(self, scenario):
        return self.find(scenario, "update", "genericjobs", "status")

    def add(self, line):
        """A copy of a line, as the last thing that was stored."""
        copy, last = deepcopy(line), self.lines[-1]
        self._version += 1
        copy["auditID"] = f"planted-{self._version}"
        copy["responseObject"]["metadata"]["resourceVersion"] = str(self._version)
        for moment in ("requestReceivedTimestamp", "stageTimestamp"):
            copy[moment] = last["stageTimestamp"]
        self.lines.append(copy)
        return copy

    def add_pod(self, line):
        """The same pod once more."""
        copy = self.add(line)
        copy["responseObject"]["metadata"]["uid"] = "planted"
        return copy


def two_instances(log):
    log.add_pod(log.find("a_crowd_pauses", "create", "pods", name="worker-0")[-1])


def a_delete_without_a_uid(log):
    log.find("within_the_limit", "delete", "pods")[0]["requestObject"].pop("preconditions")


def no_owner(log):
    log.find("within_the_limit", "create", "pods")[0]["requestObject"]["metadata"].pop("ownerReferences")


def no_owner_of_a_group(log):
    log.find("a_gang", "create", "podgroups")[0]["requestObject"]["metadata"].pop("ownerReferences")


def a_rank_runs_again(log):
    log.add_pod(log.find("a_finished_pod_is_deleted", "create", "pods", name="worker-0")[-1])


def a_charge_beyond_the_limit(log):
    log.add(log.statuses("beyond_the_limit")[-1])["responseObject"]["status"]["tasks"][0]["chargedRestarts"] = {"3": "0"}


def a_charge_for_a_disruption(log):
    status = log.statuses("a_disruption_is_not_charged")[-1]
    task = log.add(status)["responseObject"]["status"]["tasks"][0]
    task["chargedRestarts"] = task.pop("unchargedRestarts")


def a_new_epoch_before_the_old_one_is_gone(log):
    early, *_ = log.find("all_restart_together", "create", "pods", name="worker-1")
    log.add_pod(early)["responseObject"]["metadata"]["annotations"]["batch.tensorstack.dev/epoch"] = "9"


def a_delete_before_its_commit(log):
    delete = log.find("within_the_limit", "delete", "pods")[-1]
    for status in log.statuses("within_the_limit"):
        if _version(status) > _version(log.find("within_the_limit", "create", "pods", name="worker-0")[-2]):
            log.lines.remove(status)
    assert delete in log.lines


def an_end_that_is_none(log):
    log.add(log.statuses("rank_one_fails")[-1])["responseObject"]["status"]["phase"] = "Running"


def a_create_in_a_pause(log):
    log.add_pod(log.find("a_pause", "create", "pods")[-1])


def a_write_after_the_lease_was_lost(log):
    lease = next(
        line
        for line in reversed(log.lines)
        if line.get("objectRef", {}).get("resource") == "leases" and line["verb"] == "update" and line["user"]["username"] == CONTROLLER
    )
    taken = log.add(lease)
    taken["user"]["extra"][CREDENTIAL] = [ANOTHER]
    taken["responseObject"]["spec"]["holderIdentity"] = ANOTHER
    log.add(log.statuses("a_pause")[-1])


PLANTED = {
    two_instances: 1,
    a_delete_without_a_uid: 2,
    no_owner: 2,
    no_owner_of_a_group: 2,
    a_rank_runs_again: 3,
    a_charge_beyond_the_limit: 4,
    a_charge_for_a_disruption: 4,
    a_delete_before_its_commit: 4,
    an_end_that_is_none: 5,
    a_create_in_a_pause: 5,
    a_new_epoch_before_the_old_one_is_gone: 5,
    a_write_after_the_lease_was_lost: 10,
}
"""And the clause that each violates."""


def _version(line):
    answer = line.get("responseObject") or {}
    return int((answer.get("metadata") or {}).get("resourceVersion") or 0)
