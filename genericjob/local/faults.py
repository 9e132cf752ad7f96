"""Things that go wrong between a controller and its server, on demand.

`FaultyApi` stands before any API and lets calls through, except those that a rule matches: they are refused, delayed, or done and their
answer lost, which is the fault that finds the most. Rules are asked in the order in which they were made; each counts down and then is
spent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.passing import WRITES, Call, Passing, Verb
from genericjob.reconcile.resources import Key, Resource

T = TypeVar("T")


@dataclass(slots=True)
class Rule:
    """Which calls are hit, how often, and by what."""

    verbs: frozenset[str]
    resource: Resource[Any] | None
    key: Key | None
    when: Callable[[Call], bool]
    times: int
    skip: int
    error: ApiError | None
    delay: float
    after: bool

    def hits(self, call: Call) -> bool:
        """Whether this call is meant; counts it if so."""
        if self.times <= 0 or (self.verbs and call.verb not in self.verbs) or not self._about(call) or not self.when(call):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True

    def _about(self, call: Call) -> bool:
        if self.resource is not None and (self.resource.group, self.resource.plural) != (call.resource.group, call.resource.plural):
            return False
        return self.key is None or self.key == call.key


def lost_answer() -> ApiError:
    """The connection broke before the answer came."""
    return ApiError(NO_ANSWER, "Unanswered", "the answer was lost; whether it happened is unknown", unknown=True)


class FaultyApi(Passing):
    """An API with faults. Deterministic: the same calls in the same order meet the same faults."""

    def __init__(self, api: Api, *, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(api)
        self._sleep = sleep
        self._lock = Lock()
        self._rules: list[Rule] = []
        self._opened = count()
        self._watches: WeakValueDictionary[int, Any] = WeakValueDictionary()

    # -------------------------------------------------------------------------------------------- making faults

    def refuse(self, error: ApiError, *verbs: Verb, **which: Any) -> Rule:
        """Answer matching calls with an error; they do not reach the server."""
        return self._rule(verbs, error=error, **which)

    def lose(self, *verbs: Verb, error: ApiError | None = None, **which: Any) -> Rule:
        """Let matching calls happen, then lose the answer; with a `delay` it is waited for first."""
        return self._rule(verbs or tuple(sorted(WRITES)), error=error or lost_answer(), after=True, **which)

    def delay(self, seconds: float, *verbs: Verb, **which: Any) -> Rule:
        """Let matching calls wait before they reach the server."""
        return self._rule(verbs, delay=seconds, **which)

    def cut_watches(self) -> None:
        """End every open watch, quietly, in the order in which they were opened."""
        for watch in list(self._watches.values()):
            watch.close()

    def heal(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def _rule(
        self,
        verbs: tuple[Any, ...],
        *,
        resource: Resource[Any] | None = None,
        key: Key | None = None,
        when: Callable[[Call], bool] = lambda call: True,
        times: int = 1,
        skip: int = 0,
        error: ApiError | None = None,
        delay: float = 0.0,
        after: bool = False,
    ) -> Rule:
        rule = Rule(frozenset(verbs), resource, key, when, times, skip, error, delay, after)
        with self._lock:
            self._rules.append(rule)
        return rule

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call meet the first rule that matches it."""
        answer = self._met(call, do)
        if call.verb == "watch":
            self._watches[next(self._opened)] = answer
        return answer

    def _met(self, call: Call, do: Callable[[], T]) -> T:
        with self._lock:
            rule = next((rule for rule in self._rules if rule.hits(call)), None)
        if rule is None:
            return do()
        answer = do() if rule.after else None
        if rule.delay:
            self._sleep(rule.delay)
        if rule.error is not None:
            raise rule.error
        return do() if answer is None else answer
