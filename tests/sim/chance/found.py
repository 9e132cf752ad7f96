"""Schedules that failed once, each as small as it could be made. They are played with every `make sim`, and fail no more."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.chance.playing import Run
from sim.chance.schedules import Schedule
from sim.node import FOREVER, Program


@dataclass(frozen=True)
class Found:
    """A script, and the rest of its schedule."""

    schedule: Schedule
    script: Callable[[Run], None]

    def __str__(self) -> str:
        return self.script.__name__


FOUND: list[Found] = []


def found(
    seed: int, *, latency: float = 0.0, ends: bool = False, elected: bool = False, **programs: tuple[Program, ...]
) -> Callable[[Callable[[Run], None]], None]:
    """Register a script, with the seed of the scheduler and what programs do."""

    def register(script: Callable[[Run], None]) -> None:
        FOUND.append(Found(Schedule(seed, (), programs, latency, ends, elected), script))

    return register


@found(155)
def a_pause_is_no_restart_of_the_job(run: Run) -> None:
    """Ranks that a pause took away were taken for lost, and each began an epoch: after the pause the job waited for nothing."""
    run.submit(types={"worker": 2}, restart={"scope": "Job"})
    run.until(mode="Running")
    run.edit(runMode={"pause": {"enabled": True}})


@found(2, latency=0.3, ps_0=(Program(seconds=0.0, taken="Disrupted"),))
def a_delete_is_on_its_way_when_the_pod_is_orphaned(run: Run) -> None:
    """Its UID was still the same, and so a pod that was nobody's any more was deleted."""
    run.submit(types={"ps": 1})
    run.wait(seconds=8.0)
    run.delete(how="Orphan")


@found(1, worker_0=(Program(seconds=0.0, exit_code=3),))
def a_rank_that_waits_for_its_turn_is_not_lost(run: Run) -> None:
    """When the scope became Job it was taken for lost, and all were started again."""
    run.submit(types={"worker": 1}, restart={"exitCodes": {"notCharged": [3]}})
    run.wait(seconds=8.0)
    run.policy(scope="Job", exitCodes={"notCharged": [3]})


@found(1, worker_0=(Program(seconds=0.0),))
def a_clock_that_is_an_hour_ahead(run: Run) -> None:
    """By it every program had run for long, and none had to wait before it was started again."""
    run.submit(types={"worker": 1}, restart={"policy": "Always"})
    run.jump(seconds=3600.0)
    run.wait(seconds=5.0)


@found(1493, worker_2=(Program(stops=10.0),))
def a_rank_that_comes_back_is_a_new_one(run: Run) -> None:
    """The pod of its predecessor was still on its way out, and what was written on it was believed."""
    run.submit(types={"worker": 3}, runMode={"debug": {"enabled": True}})
    run.wait(seconds=0.0)
    run.kill(name="train-worker-2")
    run.wait(seconds=0.0)
    run.edit(runMode={"pause": {"enabled": True}})
    run.until(mode="Paused")
    run.resize(worker=0)
    run.edit(runMode={"pause": {"enabled": False}})
    run.wait(seconds=0.0)
    run.edit(runMode={"pause": {"enabled": True}})
    run.until(mode="Paused")
    run.resize(worker=3)


@found(
    2530,
    worker_0=(Program(seconds=15.0, exit_code=None, stops=0.5, stops_with=1),),
    worker_1=(
        Program(seconds=2.0, waits=4.0, why="Unschedulable", stops=10.0, stops_with=0),
        Program(seconds=0.3, exit_code=None, stops=0.5, stops_with=1),
        Program(seconds=5.0, waits=1.0, why="CreateContainerConfigError", stops=0.5, stops_with=1),
    ),
)
def services_of_a_job_that_is_gone(run: Run) -> None:
    """While the stream of jobs was late they were created again and again, as fast as the garbage collector removed them."""
    run.submit(
        name="train",
        types={"worker": 2},
        restart={"worker": {"policy": "OnFailure", "scope": "Job"}},
        cleanUpPolicy="Unfinished",
        service={"ports": [{"port": 80}]},
    )
    run.wait(seconds=0.0)
    run.kill(name="train-worker-0", exit_code=0)
    run.wait(seconds=0.0)
    run.crash(writes=1, when="before", arrive=(0, 3), late=0.0, down=0.0)
    run.wait(seconds=5.0)
    run.lose(name="train-worker-1")
    run.wait(seconds=0.01)
    run.burn()
    run.wait(seconds=0.0)
    run.lag(resource="genericjobs", seconds=10.0)
    run.lose_answers(verb="replace_status", resource="", times=3, skip=0)
    run.delete(name="train", how="Background")
    run.submit(
        name="train",
        types={"worker": 2},
        restart={"worker": {"policy": "OnFailure"}},
        service={"ports": [{"port": 80}]},
        runMode={"pause": {"enabled": False, "resumeSpecs": [{"type": "worker", "command": ["resume"]}]}},
    )
    run.until(name="train", mode="Pending")
    run.wait(seconds=0.05)
    run.lose_answers(verb="create", resource="", times=2, skip=0)
    run.install()
    run.wait(seconds=0.05)
    run.wait(seconds=0.01)
    run.kill(name="train-worker-1", exit_code=3)
    run.wait(seconds=5.0)
    run.switch(arrive=(1,), late=0.0)
    run.wait(seconds=0.5)
    run.kill(name="train-worker-0", exit_code=0)
    run.kill(name="train-worker-1", exit_code=0)
    run.wait(seconds=5.0)
    run.switch(arrive=(0, 2), late=4.5)


@found(
    2974,
    worker_0=(Program(seconds=0.3, exit_code=None, waits=12.0, why="CreateContainerConfigError", stops=3.0, stops_with=1),),
    worker_1=(
        FOREVER,
        Program(seconds=0.0, exit_code=1),
    ),
    worker_2=(
        Program(seconds=0.3, exit_code=None, stops=0.5, stops_with=0),
        Program(seconds=5.0, exit_code=None, waits=12.0, why="ImagePullBackOff"),
        Program(seconds=5.0, exit_code=42, stops=3.0, stops_with=0),
    ),
)
def services_of_ranks_that_are_no_more_when_the_job_ends(run: Run) -> None:
    """They were deleted while the job went on, and not after its end."""
    run.submit(
        name="train",
        types={"worker": 3},
        successRules=[{"worker": [0, 1, 2]}, {"worker": [0, 2]}],
        failureRules=[{"worker": [2, 1]}],
        service={"ports": [{"port": 80}]},
    )
    run.until(mode="Running")
    run.kill(name="train-worker-0", exit_code=0)
    run.kill(name="train-worker-1", exit_code=0)
    run.kill(name="train-worker-2", exit_code=0)
    run.until(name="train", mode="Succeeded")
    run.slow(seconds=0.0)
    run.wait(seconds=12.0)
    run.edit(name="train", suspend=False)
    run.wait(seconds=12.0)
    run.stutter(resource="genericjobs", seconds=5.0)
    run.wait(seconds=12.0)
    run.edit(name="train", suspend=True)
    run.wait(seconds=1.0)
    run.wait(seconds=5.0)
    run.edit(name="train", runMode={"pause": {"enabled": True}})
    run.until(name="train", mode="Paused")
    run.resize(name="train", worker=1)
    run.lose_answers(verb="delete", resource="", times=1, skip=0)
    run.edit(name="train", runMode={"pause": {"enabled": False}}, suspend=False)
    run.until(name="train", mode="Resuming")
    run.crash(writes=0, when="after", arrive=(1, 2, 3), late=4.5, down=0.5)
    run.wait(seconds=0.5)


@found(31438, latency=0.05, ends=True)
def a_create_arrives_after_the_end(run: Run) -> None:
    """A dead controller had sent it, and its rank had ended and was cleaned up meanwhile: the judge took it for a decision."""
    run.submit(types={"worker": 1}, cleanUpPolicy="All", runMode={"pause": {"enabled": True}})
    run.until(mode="Running")
    run.edit(runMode={"pause": {"enabled": False}})
    run.until(mode="Resuming")
    run.wait(seconds=0.0)
    run.crash(arrive=(0,), late=4.5)


@found(516, ps_0=(FOREVER, Program(exit_code=137)), worker_0=(Program(taken="Disrupted"), FOREVER))
def a_delete_meets_a_conflict_and_nothing_happens_after_it(run: Run) -> None:
    """What had changed was to bring the controller back, and nothing had: the pod stayed for ever."""
    run.submit(types={"ps": 1, "worker": 1})
    run.refuse(code=409, verb="delete", skip=1)
    run.policy(limit=1)
    run.until(mode="Resuming")
    run.switch()
    run.delete_pod(name="train-ps-0")
    run.until(mode="Restarting")
    run.switch()
    run.wait(seconds=0.0)


@found(15418, latency=0.05)
def a_create_of_an_earlier_epoch_arrives_between_two_epochs(run: Run) -> None:
    """A dead controller had sent it, and the old pods were gone by then: the judge took the next create for one that came too soon."""
    run.crash(writes=3, arrive=(1,), late=1.5, down=0.5)
    run.submit(types={"worker": 2}, restart={"limit": 1, "scope": "Job"}, service={"ports": [{"port": 1}]})
    run.until(mode="Running")
    run.kill(name="train-worker-1")
    run.wait(seconds=1.0)


@found(1, latency=0.05, worker_1=(Program(exit_code=None, stops=10.0),), worker_2=(Program(),))
def a_create_is_on_its_way_when_the_collector_takes_the_group(run: Run) -> None:
    """The job was being deleted by then, and the judge asked for the group all the same."""
    run.install()
    run.submit(types={"worker": 3}, scheduler={"t9kScheduler": {}}, runMode={"debug": {"enabled": True}})
    run.wait(seconds=12.0)
    run.until(mode="Failed")
    run.delete(how="Foreground")


@found(2, worker_0=(Program(),))
def a_pod_comes_after_the_end_and_has_ended_when_it_is_seen(run: Run) -> None:
    """It was late and had to go, like any other; the judge thought that only those go that run."""
    run.submit(types={"worker": 1}, activeDeadlineSeconds=1)
    run.edit(runMode={"pause": {"enabled": True}})
    run.until(mode="Paused")
    run.edit(runMode={"pause": {"enabled": False}})
    run.slow(seconds=4.0)
    run.edit(runMode={"pause": {"enabled": True}})
    run.edit(runMode={"pause": {"enabled": False}})
    run.until(mode="Restarting")
    run.switch(arrive=(0,), late=1.0)
    run.wait(seconds=1.0)


@found(12, worker_0=(Program(seconds=1.0),), worker_1=(Program(seconds=1.0),))
def an_expired_job_is_deleted_once(run: Run) -> None:
    """News of its pods, which went with it, came before news of the job: it was looked at again, and deleted again."""
    run.submit(types={"worker": 2}, ttlSecondsAfterFinished=5)
    run.wait(seconds=20.0)


@found(2, worker_1=(Program(seconds=0.3, taken="Disrupted"),))
def a_late_create_is_of_a_rank_that_is_gone(run: Run) -> None:
    """The judge, not the controller: a restart that was stored went with its rank, and a pod that comes for it is late, no more."""
    run.install()
    run.submit(types={"worker": 2}, scheduler={"t9kScheduler": {}})
    run.until(mode="Running")
    run.crash(writes=3, arrive=(1,), late=4.5)
    run.edit(runMode={})
    run.wait(seconds=1.0)
    run.edit(runMode={"pause": {"enabled": True}})
    run.until(mode="Paused")
    run.resize(worker=0)
    run.edit(runMode={"pause": {"enabled": False}})


@found(8865, elected=True)
def a_lease_is_taken_at_the_moment_it_ends(run: Run) -> None:
    """The judge, not the controller: fifteen seconds, counted from the beginning of time, were a little less than fifteen."""
    run.wait(seconds=0.05)
    run.wait(seconds=0.01)
    run.wait(seconds=0.01)
    run.terminate()
    run.wait(seconds=0.0)
    run.refuse(code=0, verb="list", times=2, skip=2, delay=4.0)
    run.until(mode="Restarting")
    run.wait(seconds=2.0)
    run.terminate()
    run.until(mode="Deleting")
    run.wait(seconds=18.0)
    run.until(mode="Paused")
    run.wait(seconds=5.0)
    run.crash()


@found(1, worker_0=(Program(seconds=0.0),))
def a_pod_that_has_ended_and_cannot_be_decoded_stays(run: Run) -> None:
    """Its phase was Unknown, so it was taken for one that runs again after its end, and was deleted."""
    run.submit(types={"worker": 1})
    run.until(mode="Running")
    run.spoil(resource="pods", name="train-worker-0", seconds=1.0)
    run.wait(seconds=0.0)


@found(313)
def a_pod_with_odd_finalizers_belongs_to_its_gang(run: Run) -> None:
    """The successor could not read the pod's finalizers, took the pod for gone, and started the whole gang again."""
    run.submit(types={"worker": 3}, restart={"scope": "Job"})
    run.wait(seconds=0.0)
    run.spoil(resource="pods", name="train-worker-2", seconds=1.0, how="no text")
    run.switch()
    run.wait(seconds=0.0)


@found(733)
def a_job_that_resumes_is_paused_again_before_its_first_pod(run: Run) -> None:
    """A mistake of the model: it took the job for one that had not started, which a resume has counted."""
    run.submit(types={"worker": 1}, scheduler={"t9kScheduler": {}}, runMode={"pause": {"enabled": True}})
    run.until(mode="Running")
    run.edit(runMode={"pause": {"enabled": False}})
    run.until(mode="Resuming")
    run.edit(runMode={"pause": {"enabled": True}})


@found(111966)
def a_pod_that_nobody_could_read_is_back_after_the_end(run: Run) -> None:
    """A gap of the judge: the job had ended without the pod, which was cleaned up when it could be read again."""
    run.submit(types={"ps": 1, "worker": 1})
    run.wait(seconds=0.0)
    run.spoil(resource="pods", name="train-worker-0", seconds=1.0, how="no text in labels")
    run.kill(name="train-ps-0")
    run.kill(name="train-worker-0")
    run.crash()
    run.wait(seconds=0.0)
