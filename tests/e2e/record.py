"""What the controller did for one job, as the audit log has it: in which order, and what was stored by then."""

from harness.audit import WRITES
from harness.controllers import USER

STATUS = "genericjobs/status"


class Record:
    """The controller's requests about a job and its objects, also while there come more."""

    def __init__(self, audit, job, since=0):
        self._audit, self._job, self._since = audit, job, since

    def writes(self, *verbs, resource=""):
        """What it wrote, or tried to, in this order."""
        found = self._audit.requests(
            since=self._since, user=USER, verbs=verbs or WRITES, resource=resource, namespace=self._job.key.namespace
        )
        return [each for each in found if each.name == self._job.name or each.name.startswith(f"{self._job.name}-")]

    def creates(self, resource="pods"):
        return self.writes("create", resource=resource)

    def deletes(self, resource="pods"):
        return self.writes("delete", resource=resource)

    def statuses(self):
        """The statuses that were stored."""
        return [each for each in self.writes("update", resource=STATUS) if each.succeeded]

    def known_at(self, request):
        """The status that was stored when the server received a request."""
        before = [each for each in self.statuses() if each.answered <= request.received]
        assert before, f"no status was stored before {request.verb} {request.name}"
        return before[-1].stored["status"]


def deleted_uid(request):
    """Which pod a delete was meant for; it is refused for any other of the name."""
    return request.sent["preconditions"]["uid"]
