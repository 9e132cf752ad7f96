"""The checker of audit logs: it finds what is wrong in a log that somebody made up, and nothing in a good one."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from harness.verdicts import CONTROLLER, __main__, history, judged
from harness.verdicts.entries import CREDENTIAL

NODE, ADMIN = "system:node:it", "admin"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
JOB_UID = "uid-of-train"
OWNER = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob", "name": "train", "uid": JOB_UID, "controller": True}


DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]
GANG = [{"type": "worker", "replicas": 2, "restartPolicy": {"policy": "OnFailure", "limit": 1, "scope": "Job"}}]


def stamp(moment):
    return moment.isoformat().replace("+00:00", "Z")


class Log:
    """An audit log, written line by line. Every line takes a second, and every write is one version."""

    def __init__(self):
        self.lines, self.now, self.version = [], BEGIN, 100
        self.spec = {"replicaSpecs": [{"type": "worker", "replicas": 2, "restartPolicy": {"policy": "OnFailure", "limit": 1}}]}
        self.status = {}
        self.leads("one")
        self.job(ADMIN, "create")

    def line(self, user, verb, resource, name, *, sent=None, stored=None, who="one", code=200):
        plural, _, sub = resource.partition("/")
        group = {"leases": "coordination.k8s.io", "genericjobs": "batch.tensorstack.dev"}.get(plural, "")
        self.now += timedelta(seconds=1)
        line = {
            "auditID": f"line-{len(self.lines)}",
            "verb": verb,
            "user": {"username": user, "extra": {CREDENTIAL: [who]} if user == CONTROLLER else {}},
            "objectRef": {"resource": plural, "namespace": "default", "name": name, "apiGroup": group, "subresource": sub},
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": stamp(self.now),
            "stageTimestamp": stamp(self.now + timedelta(milliseconds=10)),
        }
        if stored:
            self.version += 1
            stored["metadata"]["resourceVersion"] = str(self.version)
        # AS IT IS NOW: what is stored changes with the next line.
        bodies = {key: body for key, body in (("requestObject", sent), ("responseObject", stored)) if body is not None}
        self.lines.append(msgspec.json.decode(msgspec.json.encode(line | bodies)))
        return self

    def leads(self, who, holder=None):
        spec = {"holderIdentity": who if holder is None else holder, "renewTime": stamp(self.now + timedelta(seconds=1))}
        stored = {"kind": "Lease", "metadata": {"name": "genericjob-controller", "uid": "lease"}, "spec": spec}
        return self.line(CONTROLLER, "update", "leases", "genericjob-controller", sent=stored, stored=stored, who=who)

    def job(self, user=ADMIN, verb="patch", **spec):
        self.spec |= spec
        return self._job(user, verb, "genericjobs", "")

    def stores(self, who="one", tasks=None, **status):
        """The controller stores a status."""
        changed = {} if tasks is None else {"tasks": [{"type": "worker", "restartCount": 0, **task} for task in tasks]}
        self.status |= changed | status
        return self._job(CONTROLLER, "update", "genericjobs/status", who)

    def _job(self, user, verb, resource, who):
        stored = {"kind": "GenericJob", "metadata": {"name": "train", "uid": JOB_UID}, "spec": self.spec, "status": self.status}
        return self.line(user, verb, resource, "train", sent=stored, stored=stored, who=who)

    def pod(self, user, verb, uid, name="train-worker-0", *, phase="Pending", conditions=(), sent=None, owner=OWNER, who="one", **meta):
        resource = "pods" if verb in ("create", "delete") else "pods/status"
        notes = {f"batch.tensorstack.dev/{key}": str(meta.pop(key, 0)) for key in ("epoch", "attempt")}
        metadata = {"name": name, "uid": uid, "annotations": notes, "ownerReferences": [owner] if owner else [], **meta}
        stored = {"kind": "Pod", "metadata": metadata, "status": {"phase": phase, "conditions": list(conditions)}}
        return self.line(user, verb, resource, name, sent=sent if sent is not None else stored, stored=stored, who=who)

    def creates(self, uid, name="train-worker-0", **more):
        return self.pod(CONTROLLER, "create", uid, name, **more)

    def runs(self, uid, name="train-worker-0", **more):
        return self.pod(NODE, "patch", uid, name, phase="Running", **more)

    def ends(self, uid, name="train-worker-0", phase="Failed", **more):
        return self.pod(NODE, "patch", uid, name, phase=phase, **more)

    def deletes(self, uid, name="train-worker-0", *, user=CONTROLLER, options=None, phase="Failed", grace=0, **more):
        sent = {"preconditions": {"uid": uid}} if options is None else options
        gone = {"deletionTimestamp": stamp(self.now), "deletionGracePeriodSeconds": grace}
        return self.pod(user, "delete", uid, name, phase=phase, sent=sent, **gone, **more)

    def found(self):
        return [(each.clause, each.what) for each in judged(history(self.lines))]


def a_restart():
    """A rank fails, is charged, and runs again."""
    log = Log().stores(phase="Pending").creates("a").runs("a").stores(phase="Running").ends("a")
    return log.stores(tasks=[{"chargedRestarts": {"1": "0"}}])


def a_death_on_request():
    """A pod is asked to go, and ends badly."""
    return Log().creates("a").runs("a").deletes("a", user=ADMIN, phase="Running", grace=30).deletes("a", user=NODE)


def a_good_life():
    log = a_restart().deletes("a").creates("b", attempt=1).runs("b", attempt=1).leads("one").ends("b", phase="Succeeded", attempt=1)
    done = {"chargedRestarts": {"1": "0"}, "succeededRanks": "0"}
    log.stores(tasks=[done]).creates("c", "train-worker-1").runs("c", "train-worker-1")
    log.deletes("c", "train-worker-1", user=ADMIN, phase="Running", grace=30).deletes("c", "train-worker-1", user=NODE)
    log.stores(tasks=[done | {"unchargedRestarts": {"1": "1"}}]).creates("d", "train-worker-1", attempt=1)
    log.leads("one").stores(tasks=[done], epoch=1, pauseTime=stamp(log.now)).deletes("d", "train-worker-1", phase="Running", grace=30)
    log.deletes("b", phase="Succeeded", attempt=1).deletes("d", "train-worker-1", user=NODE).stores(
        tasks=[{"chargedRestarts": {"1": "0"}}], pauseTime=None, resumes=1
    )
    log.creates("e", epoch=1, attempt=1).leads("one").ends("e", phase="Succeeded", epoch=1)
    log.stores(tasks=[{"chargedRestarts": {"1": "0"}, "succeededRanks": "0"}], phase="Succeeded").deletes("e", phase="Succeeded")
    return log.leads("one", holder="").leads("two").stores("two")


def test_a_good_log_has_nothing():
    assert a_good_life().found() == []


WRONG = {
    "two instances": (
        lambda: Log().creates("a").runs("a").creates("b"),
        (1, "train-worker-0 begins, and another instance of it is not over"),
    ),
    "two instances under two names": (
        lambda: Log().creates("a", labels={"genericjob-replica": "r"}).creates("b", "other-0", labels={"genericjob-replica": "r"}),
        (1, "other-0 begins, and another instance of it is not over"),
    ),
    "a delete by force": (
        lambda: Log().stores(epoch=1).creates("a").runs("a").deletes("a", options={"preconditions": {"uid": "a"}, "gracePeriodSeconds": 0}),
        (1, "train-worker-0 is deleted by force"),
    ),
    "no owner": (
        lambda: Log().creates("a", owner=None),
        (2, "train-worker-0 is created without a job as its owner"),
    ),
    "an owner that does not control": (
        lambda: Log().creates("a", owner=OWNER | {"controller": False}),
        (2, "train-worker-0 is created without a job as its owner"),
    ),
    "a delete without a UID": (
        lambda: a_restart().deletes("a", options={"propagationPolicy": "Background"}),
        (2, "train-worker-0 is deleted, whatever its UID"),
    ),
    "a stranger is deleted": (
        lambda: Log().pod(ADMIN, "create", "a", owner=None).deletes("a"),
        (2, "train-worker-0 is nobody's, and is deleted"),
    ),
    "run again after its outcome was stored": (
        lambda: Log().creates("a").ends("a", phase="Succeeded").stores(tasks=[{"succeededRanks": "0"}]).deletes("a").creates("b"),
        (3, "train-worker-0 runs again in epoch 0, and its outcome is stored"),
    ),
    "an outcome is forgotten": (
        lambda: Log().stores(tasks=[{"failedRanks": "0-1"}]).stores(tasks=[{"failedRanks": "1"}]),
        (3, "train: failed_ranks of worker-0 are forgotten"),
    ),
    "a charge beyond the limit": (
        lambda: a_restart().deletes("a").creates("b", attempt=1).ends("b", attempt=1).stores(tasks=[{"chargedRestarts": {"2": "0"}}]),
        (4, "train-worker-0 is charged with 2 restarts of 1"),
    ),
    "a charge for nothing": (
        lambda: Log().creates("a").runs("a").stores(tasks=[{"chargedRestarts": {"1": "0"}}]),
        (4, "train-worker-0 is charged for nothing"),
    ),
    "a charge for a disruption": (
        lambda: Log().creates("a").ends("a", conditions=DISRUPTED).stores(tasks=[{"chargedRestarts": {"1": "0"}}]),
        (4, "train-worker-0 is charged for nothing"),
    ),
    "a charge for what somebody asked for": (
        lambda: a_death_on_request().stores(tasks=[{"chargedRestarts": {"1": "0"}}]),
        (4, "train-worker-0 is charged for nothing"),
    ),
    "a restart of all for nothing": (
        lambda: Log().job(replicaSpecs=GANG).creates("a").runs("a").stores(jobRestarts=1, epoch=1),
        (4, "train is charged with a restart of all for nothing"),
    ),
    "a new epoch before the old one is gone": (
        lambda: Log().creates("a").creates("b", "train-worker-1").stores(epoch=1).creates("c", "train-worker-2", epoch=1),
        (5, "train-worker-2 is of epoch 1, and train-worker-0 of epoch 0 is still there"),
    ),
    "a charge that falls": (
        lambda: a_restart().stores(tasks=[{}]),
        (4, "train-worker-0 was charged with 1 restarts, now with 0"),
    ),
    "a delete before the commit": (
        lambda: Log().creates("a").runs("a").ends("a").deletes("a").stores(tasks=[{"chargedRestarts": {"1": "0"}}]),
        (4, "train-worker-0 ended, that is not stored, and it is deleted"),
    ),
    "a delete of one that is needed": (
        lambda: Log().creates("a").runs("a").deletes("a", phase="Running", grace=30),
        (4, "train-worker-0 has not ended, is of the present, and is deleted"),
    ),
    "an end that is none": (
        lambda: Log().stores(phase="Failed").stores(phase="Running"),
        (5, "train was Failed, and becomes Running"),
    ),
    "a create after the end": (
        lambda: Log().stores(phase="Succeeded").creates("a"),
        (5, "train-worker-0 is created after the end of its job"),
    ),
    "a create in a pause": (
        lambda: Log().stores(pauseTime="2026-01-01T00:00:00Z", epoch=1).creates("a"),
        (5, "train-worker-0 is created, and its job is paused"),
    ),
    "a write after another took the lease": (
        lambda: Log().leads("two").creates("a"),
        (10, "create of train-worker-0, and another leads"),
    ),
    "a write after the renew deadline": (
        lambda: after(Log(), seconds=15).creates("a"),
        (10, "create of train-worker-0, 7.0 s after the renew deadline"),
    ),
    "a delete that was under way when another took the lease": (
        lambda: held_up(a_restart().deletes("a"), lambda log: log.leads("two")),
        (10, "delete of train-worker-0, and another leads"),
    ),
    "a write after the release": (
        lambda: Log().leads("one", holder="").creates("a"),
        (10, "create of train-worker-0 by one that does not lead"),
    ),
}


def after(log, seconds):
    log.now += timedelta(seconds=seconds)
    return log


def held_up(log, meanwhile):
    """The server received the last write before something else happens, and stores it afterwards."""
    *log.lines, late = log.lines
    meanwhile(log)
    log.version += 1
    late["responseObject"]["metadata"]["resourceVersion"] = str(log.version)
    log.lines.append(late)
    return log


@pytest.mark.parametrize("ends", [lambda log: log.leads("two"), lambda log: log.leads("one", holder="")], ids=["lost", "released"])
def test_a_create_that_admission_held_up_may_be_stored_when_its_sender_leads_no_more(ends):
    assert held_up(Log().creates("a"), ends).found() == []


@pytest.mark.parametrize(("log", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_found(log, expected):
    assert log().found() == [expected]


def test_who_never_asked_for_the_lease_does_not_take_part():
    assert Log().creates("a", who="a controller without election").found() == []


def test_who_only_looked_at_the_lease_does():
    log = Log().line(CONTROLLER, "get", "leases", "genericjob-controller", who="two").creates("a", who="two")
    assert log.found() == [(10, "create of train-worker-0, and another leads")]


def test_writes_are_judged_in_the_order_in_which_they_were_stored():
    """Lines come in the order of answers, and clocks tell less than versions."""
    log = a_restart().deletes("a")
    *before, commit, delete = log.lines
    log.lines = [*before, delete, commit]
    assert log.found() == []


def test_a_delete_whose_answer_has_no_version_comes_after_what_was_answered_before():
    log = a_restart().deletes("a")
    del log.lines[-1]["responseObject"]["metadata"]["resourceVersion"]
    assert log.creates("b", attempt=1).found() == []


def test_a_pod_is_known_although_its_create_looks_refused():
    """Its sender was dead when the answer came."""
    log = Log().line(CONTROLLER, "create", "pods", "train-worker-0", code=504).runs("a").creates("b")
    assert log.found() == [(1, "train-worker-0 begins, and another instance of it is not over")]


@pytest.mark.parametrize(("code", "expected"), [(504, []), (409, [(1, "train-worker-0 begins, and another instance of it is not over")])])
def test_a_pod_may_be_gone_although_its_delete_looks_refused(code, expected):
    log = Log().creates("a").line(CONTROLLER, "delete", "pods", "train-worker-0", sent={"preconditions": {"uid": "a"}}, code=code)
    assert log.creates("b").found() == expected


def test_a_log_without_bodies_cannot_be_judged():
    with pytest.raises(ValueError, match="no bodies"):
        Log().line(CONTROLLER, "create", "pods", "train-worker-0").found()


@pytest.mark.parametrize(("log", "code", "said"), [(a_good_life, 0, "no violation"), (WRONG["two instances"][0], 1, "1 violations")])
def test_the_command(tmp_path, monkeypatch, capsys, log, code, said):
    file = tmp_path / "audit.log"
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in log().lines) + b'{"half')
    monkeypatch.setattr("sys.argv", ["verdicts", str(file)])
    assert __main__.main() == code
    assert said in capsys.readouterr().out
