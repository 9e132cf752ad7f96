"""When does a certificate end? Enough DER to answer that, so that "401 Unauthorized" can be explained to a person."""

import base64
import binascii
from datetime import UTC, datetime

_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


def expiry(pem: str) -> datetime | None:
    """The end of the first certificate's validity, or None if this is not a certificate."""
    _, _, rest = pem.partition("-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition("-----END CERTIFICATE-----")
    if not end:
        return None
    try:
        return _not_after(base64.b64decode("".join(body.split()), validate=True))
    except (binascii.Error, IndexError, KeyError, ValueError):
        return None


def _not_after(der: bytes) -> datetime:
    _, certificate, _ = _element(der)
    _, tbs, _ = _element(certificate)
    tag, _, rest = _element(tbs)
    if tag == _VERSION:
        _, _, rest = _element(rest)  # the serial number comes after it
    for _ in ("signature algorithm", "issuer"):
        _, _, rest = _element(rest)
    tag, validity, _ = _element(rest)
    if tag != _SEQUENCE:
        raise ValueError("no validity where one belongs")
    _, _, rest = _element(validity)
    tag, text, _ = _element(rest)
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}[tag]
    return datetime.strptime(text.decode("ascii"), form).replace(tzinfo=UTC)


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Split off the first element: its tag, its content, and what follows."""
    tag, length, start = der[0], der[1], 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[2 : 2 + size], "big"), 2 + size
    if start + length > len(der):
        raise ValueError("the certificate is cut off")
    return tag, der[start : start + length], der[start + length :]
