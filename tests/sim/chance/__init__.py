"""Random schedules: what users, programs, the server, the network and clocks do to jobs, decided by a seed.

    python -m sim.chance --count 1000        with `tests` on the path

A schedule is a list of small steps (`schedules.py`), made by chance (`making.py`) or kept because it failed once (`found.py`). It is
played (`playing.py`) on a cluster on which everything may go wrong (`hostile.py`), by controllers of which a step says which one leads
(`appointing.py`) or that are whole processes and hold an election (`electing.py`), under the eyes of the contract and of a reference model
(`model.py`) that is fed with nothing but what the server stored (`history.py`). Then all is healed, and jobs must come to rest where they
belong (`settled.py`). A schedule that fails is made as small as possible (`shrinking.py`) and printed as Python.
"""
