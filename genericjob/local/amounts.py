"""Amounts of processors and memory, as manifests write them: `500m`, `2Gi`, `1e3`, 4."""

import re
from decimal import Decimal, InvalidOperation

_WRITTEN = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]{1,9})|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")} | {
    suffix: Decimal(base) ** power
    for base, suffixes in ((1000, ("k", "M", "G", "T", "P", "E")), (1024, ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
    for power, suffix in enumerate(suffixes, 1)
}


def amount(written: object) -> Decimal | None:
    """How much it is; None where it is no amount."""
    found = None if isinstance(written, bool) else _WRITTEN.fullmatch(str(written).strip())
    if found is None:
        return None
    try:
        return Decimal(found[1] + (found[2] or "")) * _SUFFIXES.get(found[3] or "", 1)
    except InvalidOperation:
        return None
