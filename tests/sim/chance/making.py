"""Schedules by chance. The same seed makes the same schedule."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from sim.chance.schedules import Schedule, Step, step
from sim.hostile_bytes import KINDS
from sim.node import FOREVER, Program
from sim.undecodable import UNUSUAL

T = TypeVar("T")

EPISODES, STORM = (2, 7), (8, 14)
CODES = (0, 0, 1, 3, 42, 137)
MOMENTS = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
CONDITIONS = ("QuotaReserved", "example.com/Seen", f"example.com/{UNUSUAL}", "running")
"""Types of other writers, some of which look like ours."""
ELECTION = (5.0, 18.0, 30.0)
"""Moments in which a lease may change hands."""


def schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    return _Making(Random(f"schedule {seed}")).schedule(seed)


class _Making:
    """One schedule in the making."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._types = random.choice(
            ({"worker": 1}, {"worker": 2}, {"worker": 2}, {"worker": 3}, {"ps": 1, "worker": 1}, {"ps": 1, "worker": 2})
        )
        self._gang = self._maybe(0.1)
        self._elected = self._maybe(0.15)
        self._names = ["train"]

    def schedule(self, seed: int) -> Schedule:
        steps = [step("install")] if self._maybe(0.6 if self._gang else 0.0) else []
        steps += [step("standby")] if self._maybe(0.25) else []
        steps += [self._armed()] if self._maybe(0.25) else []
        steps += [self._submit()]
        steps += [step("until", mode="Running")] if self._maybe(0.7) else [self._moment()]
        for _ in range(self._random.randint(*(STORM if self._maybe(0.05) else EPISODES))):
            steps += self._episode()
        return Schedule(
            seed,
            tuple(steps),
            {f"{type}_{rank}": self._programs() for type, count in self._types.items() for rank in range(count)},
            latency=self._random.choice((0.0, 0.0, 0.05, 0.05, 0.3)),
            ends=self._maybe(0.5),
            elected=self._elected,
        )

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    # -------------------------------------------------------------------------------------------- jobs and programs

    def _submit(self) -> Step:
        spec: dict[str, Any] = {"types": dict(self._types)}
        if self._maybe(0.8):
            spec["restart"] = {type: self._policy() for type in self._types} if self._maybe(0.5) else self._policy()
        for rules in ("successRules", "failureRules"):
            if self._maybe(0.25):
                spec[rules] = [self._rule() for _ in range(self._random.randint(1, 2))]
        for field, chance, values in (
            ("cleanUpPolicy", 0.5, ("Unfinished", "All", "None")),
            ("activeDeadlineSeconds", 0.12, (5, 10, 20, 40)),
            ("ttlSecondsAfterFinished", 0.12, (0, 5, 20)),
            ("suspend", 0.1, (True,)),
            ("service", 0.25, ({"ports": [{"port": 80}]},)),
        ):
            if self._maybe(chance):
                spec[field] = self._random.choice(values)
        if self._gang:
            spec["scheduler"] = {"t9kScheduler": {"queue": "night"}}
        mode: dict[str, Any] = {}
        if self._maybe(0.12):
            mode["debug"] = {"enabled": True}
        if self._maybe(0.15):
            resume = {"resumeSpecs": [{"type": "worker", "command": ["resume"]}]} if self._maybe(0.5) else {}
            mode["pause"] = {"enabled": self._maybe(0.4), **resume}
        if len(self._names) == 1 and self._maybe(0.04):
            self._names.append("other")
            return step("submit", name="other", **spec, **({"runMode": mode} if mode else {}))
        return step("submit", name=self._name, **spec, **({"runMode": mode} if mode else {}))

    def _policy(self) -> dict[str, Any]:
        found: dict[str, Any] = {"policy": self._random.choice(("Never", "OnFailure", "OnFailure", "OnFailure", "OnFailure", "Always"))}
        if self._maybe(0.8):
            found["limit"] = self._random.choice((0, 1, 1, 2, 2, 3, 5))
        if found["policy"] != "Always" and self._maybe(0.35):
            found["scope"] = "Job"
        if self._maybe(0.3):
            found["exitCodes"] = {self._random.choice(("neverRestart", "notCharged")): [self._random.choice((3, 42))]}
        return found

    def _rule(self) -> dict[str, list[int | str]]:
        type = self._random.choice(list(self._types))
        ranks = self._random.sample(range(self._types[type]), self._random.randint(1, self._types[type]))
        return {type: _shortened(ranks, self._types[type])}

    def _programs(self) -> tuple[Program, ...]:
        return tuple(self._program() for _ in range(self._random.randint(1, 3)))

    def _program(self) -> Program:
        chosen, seconds = self._random.random(), self._random.choice((0.0, 0.3, 1.0, 2.0, 5.0, 15.0))
        stops = self._random.choice((0.0, 0.0, 0.0, 0.5, 3.0, 10.0))
        ending: dict[str, Any] = {"stops": stops} | ({"stops_with": self._random.choice((0, 1))} if stops else {})
        waits = self._random.choice((1.0, 4.0, 12.0)) if self._maybe(0.12) else 0.0
        if waits:
            ending |= {"waits": waits, "why": self._random.choice(("ImagePullBackOff", "Unschedulable", "CreateContainerConfigError"))}
        if chosen < 0.6:
            return Program(seconds, None, **ending) if stops or waits else FOREVER
        if chosen < 0.68:
            return Program(seconds, 137, taken=self._random.choice(("Disrupted", "Evicted")), **ending)
        return Program(seconds, self._random.choice(CODES), **ending)

    @property
    def _name(self) -> str:
        return self._random.choice(self._names)

    def _pods(self) -> list[str]:
        name = self._name
        return [f"{name}-{type}-{rank}" for type, count in self._types.items() for rank in range(count)]

    def _pod(self) -> str:
        return self._random.choice(self._pods())

    # -------------------------------------------------------------------------------------------- what happens

    def _episode(self) -> list[Step]:
        """Something happens, and something goes wrong: with what follows from it, or in the midst of it."""
        causes, mode = self._happening()
        armed = [self._armed()] if self._maybe(0.35) else []
        meanwhile = [self._fault()] if self._maybe(0.45) else []
        if self._elected and self._maybe(0.4):
            (armed if self._maybe(0.6) else meanwhile).append(self._loss())
            # BEFORE THE LOSS: then creates are on their way when it happens, and arrive when somebody else leads.
            armed = [step("slow_admission", seconds=25.0), *armed] if self._maybe(0.4) else armed
        seen = [step("until", name=self._name, mode=mode)] if mode and self._maybe(0.75) else [self._moment()]
        return [*armed, *causes, *seen, *meanwhile, *([self._moment()] if self._maybe(0.6) else [])]

    def _moment(self) -> Step:
        return step("wait", seconds=self._random.choice(ELECTION if self._elected and self._maybe(0.3) else MOMENTS))

    def _happening(self) -> tuple[list[Step], str]:
        """What happens, and what the job will be like then."""
        pick: tuple[tuple[float, Callable[[], tuple[list[Step], str]]], ...] = (
            (6, lambda: ([self._edit(runMode={"pause": {"enabled": True}})], self._random.choice(("Pausing", "Paused")))),
            (6, lambda: ([self._edit(runMode={"pause": {"enabled": False}}, suspend=False)], self._random.choice(("Resuming", "Running")))),
            (2, lambda: ([self._edit(suspend=self._maybe(0.5))], "")),
            (7, lambda: ([self._kill()], self._random.choice(("Restarting", "RestartingJob", "Running", "Failed")))),
            (3, lambda: ([step("kill", name=name, exit_code=0) for name in self._pods()], "Succeeded")),
            (3, lambda: ([step("delete_pod", name=self._pod())], "Restarting")),
            (1, lambda: ([step("delete_service", name=self._pod())], "")),
            (0.3, lambda: ([step("wait", seconds=700.0)], "")),
            (2, lambda: ([step("drain", name=self._pod())], "Restarting")),
            (3, lambda: (self._lost_node(), "")),
            (2, lambda: ([self._edit(runMode={"debug": {"enabled": self._maybe(0.6)}})], "")),
            (3, lambda: ([self._change()], "")),
            (2, lambda: (self._resized(), "Resuming")),
            (2, lambda: ([step("delete", name=self._name, how=self._random.choice(("Background", "Foreground", "Orphan")))], "Deleting")),
            (2, lambda: ([step("delete", name=self._name, how=self._random.choice(("Background", "Orphan"))), self._submit()], "Pending")),
            (1, lambda: ([step("delete", name=self._name, how="Foreground"), self._moment(), self._submit()], "Pending")),
            (1, lambda: ([self._submit()], "Running")),
            (2, lambda: ([], "Running")),
            (1, lambda: ([step("install")], "")),
            (1, lambda: ([self._condition()], "")),
            (0.7, lambda: ([self._flips()], "")),
            (0.5, lambda: ([self._intruder()], "")),
        )
        return self._one_of(pick)

    def _edit(self, **spec: Any) -> Step:
        return step("edit", name=self._name, **spec)

    def _condition(self) -> Step:
        """Of another writer; the year 0 passes the server's schema, and Python cannot represent it."""
        time = self._random.choice(("2026-01-01T00:00:00Z", "2026-01-01T08:00:00.123456789+08:00", "0000-01-01T00:00:00Z"))
        type, status = self._random.choice(CONDITIONS), self._random.choice(("True", "False", "maybe"))
        message = self._random.choice(("", UNUSUAL, "long " * 400))
        return step("condition", name=self._name, type=type, status=status, time=time, message=message)

    def _flips(self) -> Step:
        times, every = self._random.choice((2, 5, 8)), self._random.choice((0.01, 0.3, 1.0, 4.0))
        return step("flip", name=self._name, times=times, every=every, type=self._random.choice(CONDITIONS))

    def _intruder(self) -> Step:
        return step("intrude", resource=self._random.choice(("pods", "pods", "services")), name=self._pod())

    def _change(self) -> Step:
        pick: tuple[tuple[float, Callable[[], Step]], ...] = (
            (3, lambda: self._edit(cleanUpPolicy=self._random.choice(("Unfinished", "All", "None")))),
            (1, lambda: self._edit(activeDeadlineSeconds=self._random.choice((1, 10, 30)))),
            (1, lambda: self._edit(ttlSecondsAfterFinished=self._random.choice((0, 10)))),
            (1, lambda: self._edit(**{self._random.choice(("successRules", "failureRules")): [self._rule()]})),
            (2, lambda: step("policy", name=self._name, **self._policy())),
        )
        return self._one_of(pick)

    def _kill(self) -> Step:
        return step("kill", name=self._pod(), exit_code=self._random.choice((0, 1, 1, 3, 42, 137)))

    def _lost_node(self) -> list[Step]:
        name = self._pod()
        asked = [step("delete_pod", name=name)] if self._maybe(0.4) else [self._kill()] if self._maybe(0.3) else []
        return [step("lose", name=name), *asked, self._moment(), step(self._random.choice(("back", "burn")))]

    def _resized(self) -> list[Step]:
        sizes = {type: self._random.randint(1, 3) for type in self._types}
        return [
            self._edit(runMode={"pause": {"enabled": True}}),
            step("until", name=self._name, mode=self._random.choice(("Pausing", "Paused", "Paused"))),
            step("resize", name=self._name, **sizes),
            *([self._armed()] if self._maybe(0.3) else [self._moment()] if self._maybe(0.5) else []),
            self._edit(runMode={"pause": {"enabled": False}}, suspend=False),
        ]

    # -------------------------------------------------------------------------------------------- what goes wrong

    def _armed(self) -> Step:
        """Something that will go wrong when the controller does something."""
        return self._one_of(
            ((4, self._refuse), (4, self._lose_answers), (6, self._crash), (2, self._switch), (3, self._late_stream), (2, self._spoil))
        )

    def _late_stream(self) -> Step:
        which = self._random.choice(("pods", "pods", "genericjobs", "services", ""))
        who = self._random.choice(("", "", "", "leader", "standby"))
        return step("lag", resource=which, seconds=self._random.choice((0.5, 2.0, 5.0, 10.0)), who=who)

    def _fault(self) -> Step:
        far = 120.0 if self._elected else 3600.0  # afterwards all wait for as long, and meanwhile a lease is renewed every other second
        pick: tuple[tuple[float, Callable[[], Step]], ...] = (
            (5, self._refuse),
            (5, self._lose_answers),
            (2, lambda: step("slow", seconds=self._random.choice((0.0, 0.1, 1.0, 4.0)))),
            (1, lambda: step("slow_admission", seconds=self._random.choice((0.0, 5.0, 15.0, 25.0)))),
            (1, lambda: step("slow_reads", seconds=self._random.choice((0.2, 1.0, 4.0)))),
            (2, lambda: step("cut")),
            (2, lambda: step("forget")),
            (1, lambda: step("bookmark", times=self._random.choice((1, 5)))),
            (1, lambda: step("behind", seconds=self._random.choice((0.5, 2.0, 8.0)), times=self._random.choice((1, 3, 6)))),
            (5, self._late_stream),
            (1, lambda: step("stutter", resource=self._random.choice(("pods", "genericjobs", "services")), seconds=5.0)),
            (7, self._crash),
            (1, lambda: step("standby")),
            (3, self._switch),
            (3, self._spoil),
            (1, lambda: step("jump", seconds=self._random.choice((-far, -30.0, -2.0, 2.0, 30.0, far)))),
        )
        return self._one_of(pick)

    def _spoil(self) -> Step:
        resource = self._random.choice(("genericjobs", "genericjobs", "pods", "pods", "services"))
        name = self._name if resource == "genericjobs" else self._pod()
        how = self._random.choice(KINDS[resource])
        return step("spoil", resource=resource, name=name, seconds=self._random.choice((0.5, 3.0, 10.0, 30.0)), how=how)

    def _loss(self) -> Step:
        """One of the ways to lose a lease, or nearly."""
        writes, late = self._random.choice((0, 1, 1, 2, 3)), self._late()
        pick: tuple[tuple[float, Callable[[], Step]], ...] = (
            (4, lambda: step("freeze", seconds=self._random.choice((3.0, 12.0, 16.0, 25.0, 40.0)), writes=writes)),
            (3, lambda: step("terminate", arrive=self._some(), late=late)),
            (
                3,
                lambda: step(
                    "cut_off", seconds=self._random.choice((5.0, 12.0, 25.0, 40.0)), arrive=self._some(), late=late, writes=writes
                ),
            ),
            (1, lambda: step("refuse_lease", code=self._random.choice((0, 409, 429, 500, 503)), **self._lease_trouble())),
            (1, lambda: step("lose_lease_answers", **self._lease_trouble())),
        )
        return self._one_of(pick)

    def _lease_trouble(self) -> dict[str, Any]:
        return {"times": self._random.choice((1, 3, 10)), "delay": self._random.choice((0.0, 3.0))}

    def _refuse(self) -> Step:
        verb, resource = self._random.choice(
            (
                ("create", "pods"), ("create", "services"), ("create", ""), ("delete", "pods"), ("delete", ""), ("replace_status", ""),
                ("replace_status", ""), ("get", ""), ("list", ""), ("watch", ""), ("patch", ""),
            )
        )  # fmt: skip
        codes = (0, 429, 500, 503, *{"replace_status": (409, 409, 409), "create": (403, 409), "delete": (409,)}.get(verb, ()))
        return step("refuse", code=self._random.choice(codes), verb=verb, resource=resource, **self._how_often())

    def _lose_answers(self) -> Step:
        verb, resource = self._random.choice(
            (("create", "pods"), ("create", ""), ("delete", ""), ("replace_status", ""), ("replace_status", ""))
        )
        return step("lose_answers", verb=verb, resource=resource, **self._how_often())

    def _how_often(self) -> dict[str, Any]:
        """And after how many seconds: a time-out takes as long as the longest."""
        times, skip = self._random.choice((1, 1, 2, 3)), self._random.choice((0, 0, 0, 1, 2))
        return {"times": times, "skip": skip, "delay": self._random.choice((0.0, 0.0, 0.0, 0.5, 4.0))}

    def _crash(self) -> Step:
        return step(
            "crash",
            writes=self._random.choice((0, 1, 1, 2, 3, 4)),
            when=self._random.choice(("before", "after")),
            arrive=self._some(),
            late=self._late(),
            down=self._random.choice((0.0, 0.0, 0.5, 2.0, 6.0)),
        )

    def _switch(self) -> Step:
        return step("switch", arrive=self._some(), late=self._late(), writes=self._random.choice((0, 1, 1, 2, 3)))

    def _some(self) -> tuple[int, ...]:
        """Of the writes on their way, any: of two workers with two hands each there are six at most."""
        return tuple(number for number in range(6) if self._maybe(0.5))

    def _late(self) -> float:
        """Creates may be very late; of other writes those of a leader arrive in time or not at all."""
        return self._random.choice((0.0, 0.3, 1.5, 4.5, 25.0, 25.0) if self._elected else (0.0, 0.0, 0.3, 1.5, 4.5))

    def _one_of(self, pick: tuple[tuple[float, Callable[[], T]], ...]) -> T:
        return self._random.choices([make for _, make in pick], [weight for weight, _ in pick])[0]()


def _shortened(ranks: list[int], count: int) -> list[int | str]:
    """All ranks of a type as one of the words, ranks that follow each other as a range. Nothing is drawn for it."""
    if len(ranks) == count > 1:
        return ["all" if ranks[0] < ranks[-1] else "any"]
    if len(ranks) > 1 and ranks == [*range(ranks[0], ranks[-1] + 1)]:
        return [f"{ranks[0]}-{ranks[-1]}"]
    return [*ranks]
