"""Processes on an API in memory: crashes at a write, watches in virtual time, and a trace of it all."""

import pytest

from genericjob.local.faults import FaultyApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, SECRETS, Key
from sim.copying import NAMES, copying, secrets
from sim.processes import Crashed
from sim.world import World

SEEDS = range(30)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_a_crash_at_a_write_is_exact(write, when):
    for seed in SEEDS[:5]:
        with World(seed) as world:
            process, api = copying(world)
            api.crash_at(write, when)
            world.stepped.reach(lambda process=process: process.crashed)
            assert process.threads == []
            assert len(secrets(world)) == (write if when == "after" else write - 1)
            assert api.writes == write
            world.stepped.advance(100)
            assert len(secrets(world)) == (write if when == "after" else write - 1)
            copying(world, names="")
            world.stepped.advance(100)
            assert secrets(world) == set(NAMES)


def test_a_refused_write_counts_as_one(world):
    process, api = world.process("p")
    api.crash_at(2, "after")

    def writing():
        for _ in range(3):
            try:
                api.create(SECRETS, {"metadata": {"name": "a"}}, "default")
            except ApiError:
                world.stepped.note("refused")

    process.start("writes", writing)
    world.stepped.run()
    assert process.crashed
    assert "refused" not in "\n".join(world.stepped.trace)


def test_what_others_had_sent_arrives_as_the_test_decides():
    def outcome(seed, chosen):
        with World(seed) as world:
            process, api = world.process("p")
            for name in "abc":
                process.start(name, lambda name=name: api.create(SECRETS, {"metadata": {"name": name}}, "default"))
            sent = []

            def commit(calls):
                sent.extend(call.key.name for call in calls)
                return [call for call in calls if call.key.name in chosen]

            api.crash_at(1, "before", commit)
            world.stepped.run()
            assert secrets(world) == set(sent) & set(chosen)
            return frozenset(sent)

    # Whichever comes first is cut off; the others have been sent by then, or not yet.
    assert {outcome(seed, "abc") for seed in range(150)} == set(map(frozenset, ("ab", "bc", "ac", "a", "b", "c", "")))
    for seed in SEEDS:
        outcome(seed, "a")


def test_a_process_can_be_crashed_from_outside_with_writes_on_their_way(world):
    process, api = world.process("p")
    process.start("writes", lambda: api.create(SECRETS, {"metadata": {"name": "a"}}, "default"))
    process.start("writes", lambda: api.create(SECRETS, {"metadata": {"name": "b"}}, "default"))
    world.stepped.run(lambda: "before create secrets default/b" in world.stepped.trace[-1])
    api.crash(lambda calls: calls)
    assert "b" in secrets(world)
    assert process.threads == []


def test_what_arrives_late_may_be_refused(world):
    process, api = world.process("p")
    for _ in range(3):
        process.start("writes", lambda: api.create(SECRETS, {"metadata": {"name": "same"}}, "default"))
    world.stepped.run(lambda: "\n".join(world.stepped.trace).count("before create") == 3)
    api.crash(lambda calls: calls)
    assert secrets(world) == {"same"}


def test_the_test_itself_can_be_in_the_process_that_crashes(world):
    process, api = world.process("p")
    api.crash_at(1, "before")
    with pytest.raises(Crashed):
        api.create(SECRETS, {"metadata": {"name": "a"}}, "default")
    assert process.crashed
    assert secrets(world) == set()


def test_nothing_that_a_thread_does_on_its_way_out_has_an_effect(world):
    process, api = world.process("p")
    lock, left = process.condition(), []

    def stubborn():
        try:
            process.sleep(100)
        finally:
            for name, attempt in {
                "write": lambda: api.create(SECRETS, {"metadata": {"name": "late"}}, "default"),
                "read": lambda: api.list(SECRETS),
                "lock": lock.__enter__,
                "sleep": lambda: process.sleep(0),
                "start": lambda: process.start("late", lambda: None),
                "pause": process.pause,
            }.items():
                with pytest.raises(Crashed):
                    attempt()
                left.append(name)

    process.start("stubborn", stubborn)
    process.start("not begun", lambda: left.append("begun"))
    world.stepped.run(lambda: process.threads[0].doing != "runs")
    before = world.api.resource_version
    process.crash()
    assert [name for name in left if name != "begun"] == ["write", "read", "lock", "sleep", "start", "pause"]
    assert world.api.resource_version == before
    assert process.threads == []


def test_a_watch_waits_in_virtual_time(world):
    process, api = world.process("p")
    seen = []

    def watching():
        with api.watch(CONFIG_MAPS, "default", timeout=100, resource_version=world.api.resource_version) as watch:
            seen.extend((process.monotonic(), event.type) for event in watch)
        seen.append((process.monotonic(), watch.resource_version == world.api.resource_version))

    process.start("watches", watching)
    world.stepped.advance(10)
    world.api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
    world.stepped.run()
    assert seen == [(10, "ADDED")]
    world.stepped.advance(1000)
    assert seen[1:] == [(60, "BOOKMARK"), (100, "BOOKMARK"), (100, True)]


def test_others_may_go_first_before_every_event():
    def order(seed):
        with World(seed) as world:
            process, api = world.process("p")
            for name in "ab":
                world.api.create(SECRETS, {"metadata": {"name": name}}, "default")
            seen = []

            def watching():
                seen.extend(event.object["metadata"]["name"] for event in api.watch(SECRETS, "default", bookmarks=False))

            process.start("watches", watching)
            process.start("goes between", lambda: (process.pause(), seen.append("-")))
            world.stepped.run()
            return "".join(seen)

    assert {order(seed) for seed in SEEDS} == {"-ab", "a-b", "ab-"}


def test_predicates_may_ask_the_api(world):
    process, api = world.process("p")
    process.start("writes", lambda: [api.create(SECRETS, {"metadata": {"name": name}}, "default") for name in "abc"])
    world.stepped.reach(lambda: len(api.list(SECRETS, "default").items) == 2)
    assert secrets(world) == {"a", "b"}
    assert "list" not in "\n".join(world.stepped.trace)


def test_a_way_to_the_api_may_lead_through_faults(world):
    faulty = FaultyApi(world.api)
    process, api = world.process("p", api=faulty)
    faulty.lose("create")
    answers = []

    def writing():
        with pytest.raises(ApiError) as caught:
            api.create(SECRETS, {"metadata": {"name": "a"}}, "default")
        answers.append(caught.value.unknown)

    process.start("writes", writing)
    world.stepped.run()
    assert answers == [True]
    assert secrets(world) == {"a"}


def test_a_watch_is_closed_from_another_thread(world):
    process, api = world.process("p")
    watch, seen = api.watch(CONFIG_MAPS), []
    process.start("watches", lambda: seen.extend(event.type for event in watch))
    world.stepped.run()
    watch.close()
    world.stepped.run()
    assert process.threads == []


def test_others_may_go_first_before_and_after_every_call():
    """Whether a read sees a write of another thread, and whether an answer is old when it arrives, is up to the seed."""

    def found(seed):
        with World(seed) as world:
            process, api = world.process("p")
            seen = []

            def reading():
                seen.append(len(api.list(SECRETS, "default").items))
                seen.append(len(world.api.list(SECRETS, "default").items))

            process.start("reads", reading)
            process.start("writes", lambda: api.create(SECRETS, {"metadata": {"name": "a"}}, "default"))
            world.stepped.run()
            return tuple(seen)

    assert {found(seed) for seed in SEEDS} == {(0, 0), (0, 1), (1, 1)}


def test_the_trace_tells_what_was_asked_and_answered(world):
    process, api = world.process("p")

    def asking():
        api.create(SECRETS, b'{"metadata": {"name": "a"}}', "default")
        with pytest.raises(ApiError):
            api.get(SECRETS, Key("default", "b"))

    process.start("asks", asking)
    world.stepped.run()
    assert [line.split(": ", 1)[1] for line in world.stepped.trace] == [
        "starts p/asks",
        "before create secrets default/a",
        "after create secrets default/a",
        "before get secrets default/b",
        "refused get secrets default/b: 404 NotFound",
        "ends",
    ]
