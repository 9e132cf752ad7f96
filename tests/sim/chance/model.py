"""A reference model: whether a status may follow upon another, by what the server saw of pods in between.

Written from the specification alone and in its own words: no decision of the controller is used here. It knows less than a controller (not
what was in whose cache, nor when), so it never says what must be stored next, only what may be.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sim.chance.facts import FINAL, Change, End, Rank

FORGIVEN = timedelta(minutes=10)
MOST_IN_A_ROW = 12


def most(policy: Mapping[str, Any]) -> float:
    """How many restarts are charged at most."""
    kind, limit = policy.get("policy", "OnFailure"), policy.get("limit")
    return 0 if kind == "Never" else limit if limit is not None else float("inf") if kind == "Always" else 0


def meaning(end: End, policy: Mapping[str, Any], charges: int, *, debugged: bool) -> str:
    """What becomes of a rank whose pod ended so."""
    if end.debugged or (end.disrupted and end.phase == "Failed"):
        return "uncharged"
    found = by_policy(end, policy, charges)
    return "uncharged" if debugged and found in ("charged", "failed") else found


def by_policy(end: End, policy: Mapping[str, Any], charges: int) -> str:
    """The same where nobody debugs, and nobody was in the way."""
    codes = policy.get("exitCodes") or {}
    if end.codes & set(codes.get("neverRestart", ())):
        return "failed"
    if end.phase == "Failed" and end.codes and end.codes <= set(codes.get("notCharged", ())):
        return "uncharged"
    again = charges < most(policy) and (end.phase == "Failed" or policy.get("policy") == "Always")
    return "charged" if again else end.phase.lower()


def meanings(change: Change, rank: Rank) -> set[str]:
    """What the ends of the rank's present try mean, each for itself."""
    policy = change.replicas[rank]
    charges = change.old.jobRestarts if change.together(rank) else change.old.counts("chargedRestarts").get(rank, 0)
    return {meaning(end, policy, charges, debugged=change.debugged) for end in change.past.ends.get(change.present(rank), ())}


def complaints(change: Change) -> Iterator[str]:
    """What is wrong with it."""
    for ask in (_phase, _pause, _outcomes, _charges, _patience, _joint_restart, _end):
        yield from ask(change)


def _phase(change: Change) -> Iterator[str]:
    old, new = change.old, change.new
    resumed = old.paused and not new.paused  # its rules may have been changed meanwhile
    allowed = {
        "Pending": old.phase in ("Pending", "Unknown") or change.joint > 0,
        "Unknown": change.past.unreadable and not old.paused and old.phase not in FINAL,
        "Running": not old.paused and old.phase not in FINAL,
        "Pausing": new.paused,
        "Paused": new.paused,
        "Resuming": old.phase == "Resuming" or old.paused,
        "Succeeded": old.phase in ("Succeeded", "Pending", "Running", "Resuming", "Unknown") or resumed,
        "Failed": old.phase in ("Failed", "Pending", "Running", "Resuming", "Unknown") or resumed,
    }
    if not allowed.get(new.phase, False):
        yield f"a job that was {old.phase} is {new.phase}"


def _pause(change: Change) -> Iterator[str]:
    old, new = change.old, change.new
    if new.paused and not old.paused and not change.pause_wanted:
        yield "a pause begins that nobody wants"
    if old.paused and not new.paused and (change.pause_wanted or new.resumes != old.resumes + (not old.pausedBeforeStart)):
        yield "a pause ends that somebody wants, or is not counted"
    if new.pausedBeforeStart and (not new.paused or old.resumes or old.lastJobRestart or any(map(old.attempt, change.replicas))):
        yield "a job that has started, or is not paused, is to start for the first time"
    started = change.had_pods or old.resumes  # who resumes may be paused again before its first pod
    if new.paused and not old.paused and not new.pausedBeforeStart and not started and not change.created_paused:
        yield "a job that has had no pod, and was not created with runMode.pause, is to resume"
    if old.paused == new.paused and new.resumes != old.resumes:
        yield "the end of a pause is counted that has not ended"


def _outcomes(change: Change) -> Iterator[str]:
    anew = change.joint or (change.old.paused and not change.new.paused)
    if anew and (change.new.ranks("succeededRanks") or change.new.ranks("failedRanks")):
        yield "all begin anew, and some have ended"
    for where, word in (("succeededRanks", "succeeded"), ("failedRanks", "failed")):
        for rank in change.new.ranks(where) - change.old.ranks(where):
            if change.new.phase in FINAL:  # nobody runs again: every end counts as it is
                found = {end.phase.lower() for end in change.past.ends.get(change.present(rank), ())}
            else:
                found = meanings(change, rank)
            if word not in found:
                yield f"{rank} has {word}, and its ends mean {sorted(found)}"


def _charges(change: Change) -> Iterator[str]:
    for where, word in (("chargedRestarts", "charged"), ("unchargedRestarts", "uncharged")):
        before, now = change.old.counts(where), change.new.counts(where)
        for rank in change.replicas:
            if now.get(rank, 0) == before.get(rank, 0):
                continue
            if change.new.phase in FINAL:
                yield f"{rank} is started again after the end"
            elif change.together(rank):
                yield f"{rank} is started again alone"
            elif word not in meanings(change, rank) and not (word == "uncharged" and change.present(rank) in change.past.gone):
                yield f"{rank} is started again, {word}, and its ends mean {sorted(meanings(change, rank))}"


def _patience(change: Change) -> Iterator[str]:
    """Who is started again waits longer each time, unless he ran for a good while. Told by the clock that wrote both times."""
    for rank in change.replicas:
        if change.new.attempt(rank) == change.old.attempt(rank):
            continue
        row, before, now = change.new.in_a_row(rank), change.old.last(rank), change.new.last(rank)
        forgiven = row == 1 and (before is None or (now is not None and now - before >= FORGIVEN))
        if now is None:
            yield f"{rank} is started again, and nobody knows since when"
        elif not forgiven and row != min(change.old.in_a_row(rank) + 1, MOST_IN_A_ROW):
            yield f"{rank} was started again {change.old.in_a_row(rank)} times in a row, and now {row}"


def _joint_restart(change: Change) -> Iterator[str]:
    if not change.joint and change.new.jobRestarts == change.old.jobRestarts:
        return
    if change.joint != 1 or change.old.paused or change.new.phase in FINAL:
        yield f"{change.joint} epochs begin without a reason"
    together = [rank for rank in change.replicas if change.together(rank)]
    words = {word for rank in together for word in meanings(change, rank)}
    if any(change.present(rank) in change.past.gone for rank in together):
        words.add("uncharged")
    word = "charged" if change.new.jobRestarts > change.old.jobRestarts else "uncharged"
    if word not in words:
        yield f"the whole job is started again, {word}, and ends mean {sorted(words)}"


def _end(change: Change) -> Iterator[str]:
    new, old = change.new, change.old
    if old.phase in FINAL:
        return
    verdict = verdicts(change.spec, change.replicas, new.ranks("succeededRanks"), new.ranks("failedRanks"))
    if new.phase in FINAL:
        late = new.phase == "Failed" and _too_late(change)
        if not late and (new.phase not in verdict or change.debugged):
            yield f"the job has {new.phase.lower()}, and its outcomes mean {sorted(verdict)}"
        if new.phase == "Failed" and not change.debugged and "Succeeded" in verdicts(change.spec, change.replicas, _surely(change), set()):
            yield "the job has failed, and a success rule is met"
    elif verdict and not (change.debugged or new.paused or old.paused or change.joint):
        yield f"the job goes on, and its outcomes mean {sorted(verdict)}"


def _surely(change: Change) -> set[Rank]:
    """Ranks that have succeeded whatever becomes of the job; of a rank that would have been started again only its end says so."""
    found, before = change.new.ranks("succeededRanks"), change.old.ranks("succeededRanks")
    return {rank for rank in found if rank in before or meanings(change, rank) == {"succeeded"}}


def _too_late(change: Change) -> bool:
    limit, new = change.spec.get("activeDeadlineSeconds"), change.new
    if limit is None or new.paused:
        return False
    taken = datetime.fromisoformat(new.completionTime) - datetime.fromisoformat(new.startTime)
    return bool(taken.total_seconds() - new.pausedSeconds >= limit)


def spelled_out(rule: Mapping[str, Any], every: set[Rank]) -> Iterator[set[Rank]]:
    """A rule in numbers alone: one that names `any` of a type is a rule for each rank of it."""
    made: list[set[Rank]] = [set()]
    for type, items in rule.items():
        there = [rank for rank in every if rank[0] == type] or [(type, 0)]
        for item in items:
            first, dash, last = str(item).partition("-")
            if item == "any":
                made = [found | {rank} for found in made for rank in there]
            elif item == "all":
                made = [found | {*there} for found in made]
            else:
                made = [found | {(type, rank) for rank in range(int(first), int(last if dash else first) + 1)} for found in made]
    yield from made


def verdicts(spec: Mapping[str, Any], replicas: Mapping[Rank, Mapping[str, Any]], succeeded: set[Rank], failed: set[Rank]) -> set[str]:
    """How a job with these outcomes may end; nothing if it may not."""
    every = set(replicas)
    endless = {rank for rank, policy in replicas.items() if most(policy) == float("inf")}
    immortal = {rank for rank in endless if not (replicas[rank].get("exitCodes") or {}).get("neverRestart")}

    def read(field: str) -> list[set[Rank]]:
        rules = [rule for given in spec.get(field) or () for rule in spelled_out(given, every)]
        return [rule for rule in rules if rule and rule <= every]

    found = set()
    failure = [rule for rule in read("failureRules") if not rule & immortal]
    success = read("successRules") if spec.get("successRules") else [every - endless or every]
    if any(rule <= succeeded for rule in success):
        found.add("Succeeded")
    needed = success if spec.get("successRules") else [every]
    hopeless = all(rule & failed for rule in needed) and all(rule & succeeded for rule in failure)
    if any(rule <= failed for rule in failure) or hopeless or every <= succeeded | failed:
        found.add("Failed")
    return found
