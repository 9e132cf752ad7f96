"""What happens to jobs, as small scripts: users, programs and faults.

Each is confluent: however a controller dies on the way, it ends the same. So what programs do depends on the rank and on how often it ran
before, and a user acts when the server shows a certain state, not at a certain time.
"""

from sim.scenarios import crowds, ends, gangs, modes, names, particulars, pauses, restarts, rules, servers, trouble
from sim.scenarios.script import SCENARIOS, TRAIN, Scenario, ranks

__all__ = ["SCENARIOS", "THEMES", "TRAIN", "Scenario", "ranks"]

THEMES = (rules, restarts, ends, pauses, modes, gangs, trouble, names, servers, crowds, particulars)
