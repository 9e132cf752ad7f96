"""What came of a plan's writes, put together."""

import pytest

from genericjob.jobs.applying import Applied
from genericjob.jobs.decide import News

ONE, TWO = News("Warning", "FailedDelete", "no"), News("Warning", "FailedCreate", "quota")
QUOTA, TAKEN = ("FailedCreate", "quota"), ("NameConflict", "taken")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Applied(), Applied(), Applied()),
        (Applied(again=1.0), Applied(again=300.0), Applied(again=1.0)),
        (Applied(again=300.0), Applied(again=1.0), Applied(again=1.0)),
        (Applied(again=0.0), Applied(), Applied(again=0.0)),
        (Applied(), Applied(again=5.0), Applied(again=5.0)),
        (Applied(3, 2), Applied(4, 1), Applied(7, 3)),
        (Applied(news=(ONE,)), Applied(news=(TWO,), trouble=QUOTA), Applied(news=(ONE, TWO), trouble=QUOTA)),
        (Applied(trouble=TAKEN), Applied(trouble=QUOTA, again=2.0), Applied(trouble=TAKEN, again=2.0)),
    ],
)
def test_nothing_of_two_results_is_lost_and_the_earlier_wait_counts(one, other, both):
    assert one.merged(other) == both
