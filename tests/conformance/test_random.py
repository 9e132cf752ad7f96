"""Random sequences of operations, sent to both implementations. `make conformance-long` sends many more, from fresh seeds."""

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from conformance.conftest import memory_with_kinds
from conformance.twins import Twins
from conformance.worlds import MemoryWorld, ServerWorld
from harness.clusters import Namespaces

LONG = "CONFORMANCE_OPERATIONS" in os.environ
OPERATIONS = int(os.environ.get("CONFORMANCE_OPERATIONS", "1000"))
STEPS = 40


def test_random_operations_have_the_same_answers_on_both(server_with_kinds, cluster, capsys):
    namespaces = Namespaces(server_with_kinds)

    def worlds():
        """A new pair for each sequence."""
        if LONG:
            with capsys.disabled():
                print(f"{Twins.sent:,} of {OPERATIONS:,} operations sent", flush=True)
        return MemoryWorld(memory_with_kinds()), ServerWorld(server_with_kinds, cluster, namespaces.make())

    Twins.sent = Twins.agreed = 0
    run_state_machine_as_test(
        lambda: Twins(worlds),
        settings=settings(
            max_examples=max(1, OPERATIONS // STEPS),
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            # A server takes its time: without being asked for it, a failing sequence is printed as it is and not made small.
            phases=[Phase.generate, Phase.shrink] if os.environ.get("CONFORMANCE_SHRINK") else [Phase.generate],
        ),
    )
    with capsys.disabled():
        print(f" [{Twins.sent} operations on each side, {Twins.agreed} accepted by both] ", end="")
