"""Jobs while everything around them fails: connections, the server, its memory, the leader.

In the end every job has ended as its ranks did, and the audit log shows that each rank got its pod, once.
"""

import signal
from datetime import UTC, datetime

import pytest

from e2e.apart import apart
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually
from harness.configurations import Server
from harness.proxy import Proxy

pytestmark = pytest.mark.processes

MANY, FEW = 80, 10
"""Ranks of a job that takes its leader a while, and of one that does not."""
SOME = 10
"""Pods that run when the leader is in the middle of its work."""
WRITERS = 8
"""Writes that a controller has under way at the same time."""
WORK, LEASES = ("genericjobs/status", "pods"), "leases"


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "failing") as world:
        yield world


@pytest.fixture
def contenders(world, tmp_path):
    """Two controllers: the one that leads, and the one that waits for its end."""
    with world.contenders(tmp_path) as both:
        yield both


# ------------------------------------------------------------------------------------------------ the server


def test_twenty_jobs_end_right_although_the_server_dies_and_forgets(world, tmp_path):
    """Five jobs run through it all, five end while nobody is there to hear of it, five are half created, and five come after it."""
    namespace, plane = world.namespace(), world.plane
    with Proxy(Server(world.cluster.kubeconfig).port) as proxy, world.contenders(tmp_path, port=proxy.port) as controllers:

        def five(name, ranks=3):
            return [world.submit(namespace, f"{name}-{number}", ranks) for number in range(5)]

        steady, ending = five("steady"), five("ending")
        eventually(lambda: world.running(namespace))
        proxy.cut()  # every watch, and whatever was being written
        world.run(*steady, *ending)

        begun = five("begun", FEW * 2)
        eventually(lambda: not world.running(namespace).isdisjoint(begun[0].keys))
        plane.kill("kube-apiserver")
        unheard = world.end(keys_of(*ending), but=[ending[0].keys[1]])
        plane.compact()
        plane.restart("kube-apiserver")
        late = five("late")
        unheard.kept()
        # On a slow machine the server is away for too long, and the leader has to go. The other one has seen as much.
        assert {each.exit_code for each in controllers} <= {None, 1}
        alive = [each for each in controllers if each.exit_code is None]
        eventually(lambda: any(each.metric(r'reflector_watches_total\{reason="expired",resource="pods"\}') for each in alive))

        rest = [*steady, *begun, *late]
        world.run(*rest)
        failing = [group[0] for group in (steady, begun, late)]
        world.end(keys_of(*rest), but=[job.keys[1] for job in failing]).kept()
        have_ended(world, *ending, *rest, failed=[ending[0], *failing])

    each_rank_got_its_pod_once(world, *ending, *rest)


# ------------------------------------------------------------------------------------------------ the leader


def test_the_other_one_finishes_what_a_killed_leader_began(world, contenders):
    leader, other = contenders
    namespace, jobs = in_the_middle(world)
    leader.kill()

    doomed, *ended = sorted(world.running(namespace))[:SOME]
    world.end(ended).kept()  # nobody is there to hear of it
    world.api.delete(RAW_PODS, doomed)
    jobs.append(world.submit(namespace, "later", FEW))
    eventually(lambda: other.leads)
    left = set(keys_of(*jobs)) - set(ended)
    eventually(lambda: left <= world.running(namespace))
    world.end(left, but=[jobs[-1].keys[1]]).kept()
    have_ended(world, *jobs, failed=jobs[-1:])

    taken = leadership_passed(world, leader, other)
    assert all(each.received < taken for each in world.writes(leader))  # those that failed, too
    assert (created(world, other) - {doomed.name}) & names_of(jobs[0])  # the leader was in the middle of this one
    each_rank_got_its_pod_once(world, *jobs, replaced=[doomed])


def test_a_leader_that_slept_too_long_changes_nothing_any_more(world, contenders):
    leader, other = contenders
    _, jobs = in_the_middle(world)
    leader.signal(signal.SIGSTOP)
    eventually(lambda: other.leads)
    world.run(*jobs)
    woken = datetime.now(UTC)
    leader.signal(signal.SIGCONT)
    assert eventually(lambda: leader.exit_code) == 1
    assert "leader election lost" in leader.log

    leadership_passed(world, leader, other)
    assert created(world, other) & names_of(jobs[0])
    # One that fell asleep between its permission and its request sends it when it wakes up, and is told that it comes too late.
    late = [each for each in world.writes(leader) if each.received > woken and each.resource in (*WORK, LEASES)]
    assert not [each for each in late if each.succeeded]
    assert len(late) <= WRITERS
    each_rank_got_its_pod_once(world, *jobs)


def test_a_leader_that_is_asked_to_stop_hands_over_at_once(world, contenders, record_property):
    leader, other = contenders
    namespace, jobs = in_the_middle(world)
    asked = datetime.now(UTC)
    assert leader.terminate() == 0
    ended = datetime.now(UTC)
    jobs.append(world.submit(namespace, "next", FEW))
    world.run(*jobs)
    world.end(keys_of(*jobs)).kept()
    have_ended(world, *jobs)

    taken = leadership_passed(world, leader, other)
    *_, last = world.writes(leader)
    assert last.resource == LEASES
    assert last.sent["spec"]["holderIdentity"] == ""
    assert last.received < taken
    assert created(world, other) & names_of(jobs[0])  # it did not go on until all was done
    each_rank_got_its_pod_once(world, *jobs)
    first = next(each.received for each in world.writes(other) if each.resource in WORK)
    for what, moment in (("ended", ended), ("taken", taken), ("at_work", first)):
        record_property(f"seconds_until_{what}", round((moment - asked).total_seconds(), 2))
        print(f"after SIGTERM: {what} after {(moment - asked).total_seconds():.2f} s")


# ------------------------------------------------------------------------------------------------ what is done and asked again and again


def in_the_middle(world):
    """Jobs whose pods are being created at this moment, and their namespace."""
    namespace = world.namespace()
    jobs = [world.submit(namespace, f"job-{number}", ranks) for number, ranks in enumerate((MANY, FEW, FEW, FEW, FEW))]
    eventually(lambda: len(world.running(namespace)) >= SOME)
    return namespace, jobs


def keys_of(*jobs):
    return [key for job in jobs for key in job.keys]


def names_of(*jobs):
    return {key.name for key in keys_of(*jobs)}


def have_ended(world, *jobs, failed=()):
    """Wait until all jobs of the namespace have ended, as they should: some by the failure of their rank 1."""
    expected = {job.name: ("Failed" if job in failed else "Succeeded") for job in jobs}
    namespace = jobs[0].key.namespace
    eventually(lambda: {name: phase for name, (phase,) in world.statuses(namespace, "phase").items()} == expected)
    for name, (tasks,) in world.statuses(namespace, "tasks").items():
        job = next(job for job in jobs if job.name == name)
        if job in failed:
            assert tasks[0]["failedRanks"] == "1", name
        else:
            assert tasks[0]["succeededRanks"] == f"0-{len(job.keys) - 1}", name


def leadership_passed(world, old, new):
    """One has worked after the other, never both: when the new one took the lease."""
    taken = next(each.received for each in world.writes(new) if each.resource == LEASES and each.succeeded)
    before, after = ([each.received for each in world.writes(one) if each.resource in WORK and each.succeeded] for one in (old, new))
    assert before
    assert max(before) < taken < min(after)
    return taken


def created(world, contender):
    """Names of the pods that a controller created."""
    return {each.name for each in world.writes(contender) if (each.verb, each.resource) == ("create", "pods") and each.succeeded}


def each_rank_got_its_pod_once(world, *jobs, replaced=()):
    """By the audit log no pod is missing, and none was created again, but for those that somebody else had removed."""
    namespace = jobs[0].key.namespace
    found = world.instances(namespace)
    owners = {name: list(owners.values()) for name, owners in found.items()}
    assert owners == {key.name: [job.uid] * (2 if key in replaced else 1) for job in jobs for key in job.keys}
    assert world.removed(namespace) == {next(iter(found[key.name])) for key in replaced}
    assert world.verbs(namespace) == {"create"}
    assert not world.nodes.overlaps()
