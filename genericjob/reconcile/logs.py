"""Logs: lines for people, or JSON for those who collect them.

What a line is about comes as fields, `log.info("…", extra={"job": "team/train", "uid": …, "reason": …})`, and stands in its own place in
both forms. One record is one line: what users wrote may end up in a message, and must not be able to forge another line.
"""

import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

Format = Literal["text", "json"]
FIELDS = ("job", "uid", "reason")
LEVELS = ("debug", "info", "warning", "error")

log = logging.getLogger(__name__)


def configure(format: Format = "text", level: str = "info", *, stream: TextIO | None = None) -> None:
    """Send this project's records of a level, and warnings of everybody else's, to a stream (standard error) in one of two forms."""
    if format not in ("text", "json"):
        raise ValueError(f"there is no log format {format!r}: choose text or json")
    if level.lower() not in LEVELS:
        raise ValueError(f"there is no log level {level!r}: choose one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json() if format == "json" else Text())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, Json | Text)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("genericjob").setLevel(level.upper())
    logging.captureWarnings(True)
    # A reader of the log that went away is no reason to fail, nor to say so on a stream that nobody reads.
    logging.raiseExceptions = False
    threading.excepthook = _thread_died


def _thread_died(args: threading.ExceptHookArgs) -> None:
    """The last resort: threads of the framework are watched by those who start them."""
    if args.exc_type is not SystemExit and args.exc_value is not None:
        name = args.thread.name if args.thread else "unknown"
        log.error("thread %s died", name, exc_info=(args.exc_type, args.exc_value, args.exc_traceback))


class Text(logging.Formatter):
    """`2026-01-01T00:00:00.000Z INFO  reconcile.lease: this process leads  job=team/train reason=…`; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        name = record.name.removeprefix("genericjob.")
        fields = "".join(f" {field}={_one_line(value)}" for field, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {name}: {_one_line(_message(record))}{' ' + fields if fields else ''}"
        return "\n    ".join([line, *map(_one_line, _trace(record).splitlines())])


class Json(logging.Formatter):
    """One object a line, with the fields time, level, logger, message, and job, uid, reason, error where there are such."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        found: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        found |= {field: _clean(str(value)) for field, value in _fields(record).items()}
        if trace := _trace(record):
            found["error"] = trace
        return msgspec.json.encode(found).decode()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return _clean(record.getMessage())
    except Exception:  # a message whose arguments do not fit is still worth reading
        return _clean(f"{record.msg} {record.args}")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {field: value for field in FIELDS if (value := record.__dict__.get(field)) not in (None, "")}


def _trace(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[0] is not None:
        return _clean(logging.Formatter().formatException(record.exc_info))
    return ""


def _one_line(value: Any) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(value))


def _clean(text: str) -> str:
    """Without halves of characters (lone surrogates), which no encoding can write."""
    return text.encode("utf-8", "backslashreplace").decode()
