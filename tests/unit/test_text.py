"""Text of others on a terminal: control characters are shown, not obeyed, by every command and in every form of output."""

import json
from functools import partial

import pytest
import yaml

from genericjob.cli.describe import described
from genericjob.cli.failures import CommandError
from genericjob.cli.get import why
from genericjob.cli.main import main
from genericjob.cli.text import one_line, painted, say, say_json, say_yaml, show
from genericjob.reconcile.errors import ApiError

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
"""Fills the clipboard of many terminals."""
HOSTILE = [CLIPBOARD, "\x1b[2J\x1b[H", "\x1b[31m", "\r", "\b\b\b", "\x9b31m", "\x85", "\u202egnihtemos", "\u2028", "\x7f", "\x00", "\u200b"]
OBEYED = {chr(number) for number in (*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x202E, 0x2028, 0x200B)}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_gives_orders_to_a_terminal(hostile, capsys):
    text = f"before {hostile} after"
    say(text)
    say(text, err=True)
    say_json({"text": text, text: [text]})
    say_yaml(partial(yaml.safe_dump, {"text": text, "lines": f"a\n{text}\n"}))
    printed = capsys.readouterr()
    assert not OBEYED & {*printed.out, *printed.err}
    assert "before" in one_line(text)
    assert not OBEYED & {*one_line(text)}
    assert "\n" not in one_line(f"{text}\ngenericjob: forged")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_programs_read_means_what_it_meant(hostile, capsys):
    value = {"text": f"a\tb\n{hostile}é 备注", hostile: [1.5, None]}
    say_json(value)
    assert json.loads(capsys.readouterr().out) == value
    say_yaml(partial(yaml.safe_dump, value))
    assert yaml.safe_load(capsys.readouterr().out) == value


def test_our_own_colours_pass_and_those_that_can_hide_text_do_not(capsys, monkeypatch):
    monkeypatch.setattr("typer.echo", print)  # which takes no colours away
    show([f"{painted('Failed', 'red', colours=True)} \x1b[8mhidden\x1b[2J"])
    assert capsys.readouterr().out == "\x1b[31mFailed\x1b[0m ^[[8mhidden^[[2J\n"


def test_lines_spaces_and_tabs_stay(capsys):
    say("first\n  second\tthird")
    assert capsys.readouterr().out == "first\n  second\tthird\n"


@pytest.mark.parametrize(
    "error",
    [ApiError(403, "Forbidden", f"a webhook says {CLIPBOARD}\ngenericjob: all is well"), CommandError(f"it is Pending ({CLIPBOARD})")],
)
def test_how_a_command_ends_is_text_of_others_too(error, monkeypatch, capsys):
    def app(**_):
        raise error

    monkeypatch.setattr("genericjob.cli.app.app", app)
    monkeypatch.setattr("sys.argv", ["genericjob"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr().err
    assert end.value.code == 1
    assert "\x1b" not in printed
    assert printed.count("\n") == 1


def test_no_field_of_a_job_gives_orders():
    condition = {"type": "Running", "status": "False", "reason": CLIPBOARD, "message": f"{CLIPBOARD}\nforged"}
    spec = {"managedBy": CLIPBOARD, "replicaSpecs": [{"type": "worker", "replicas": 1}], "successRules": [{CLIPBOARD: [0]}]}
    meta = {"name": "train", "namespace": "team", "creationTimestamp": CLIPBOARD, "labels": {"a": CLIPBOARD}, "finalizers": [CLIPBOARD]}
    job = {"metadata": meta | {"deletionTimestamp": CLIPBOARD}, "spec": spec, "status": {"phase": "Running", "conditions": [condition]}}
    assert "\x1b" not in why(job)
    assert "\n" not in why(job)
    lines = [*described(job, [], [])]
    assert any("^[]52" in line for line in lines)
    assert not any("\n" in line for line in lines)
