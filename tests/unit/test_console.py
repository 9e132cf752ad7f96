"""Commands on pages: found, typed, and compared with what the page shows. And the names that a node that runs programs resolves."""

import os
from types import SimpleNamespace

import pytest

from genericjob.local.addresses import Addresses
from genericjob.reconcile.resources import Key
from genericjob.reconcile.store import Change
from harness.console import Command, commands, typed
from harness.machine import Names

pytestmark = pytest.mark.processes

PAGE = """\
Some text, with a `$ dollar`.

```console
$ echo hello   there
hello there
…
$ cd /
```

```sh
$ echo not this one
```

```console
$ pwd; false
/
not printed
```
"""


def test_the_commands_of_a_page_are_those_of_its_console_blocks():
    assert commands(PAGE) == [
        Command("echo hello   there", ("hello there",)),
        Command("cd /", ()),
        Command("pwd; false", ("/", "not printed")),
    ]


def test_commands_are_typed_into_one_shell_and_what_they_did_not_print_is_told(tmp_path):
    given = commands(PAGE)
    done = typed(given, directory=tmp_path, environment=os.environ)
    assert [code for _, code in done] == [0, 0, 1]
    assert [command.missing(printed) for command, (printed, _) in zip(given, done, strict=True)] == [[], [], ["not printed"]]


def test_a_command_that_does_not_end_ends_the_answers(tmp_path):
    given = [Command("echo one", ()), Command("exec sleep 1000", ()), Command("echo two", ())]
    assert [printed.strip() for printed, _ in typed(given, directory=tmp_path, environment=os.environ, timeout=1)] == ["one"]


def test_a_name_resolves_once_both_its_pod_and_its_service_are_there(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 localhost\n")
    names = Names(file, Addresses(network=9))
    names.address(Key("team", "a-worker-0"))
    names.seen(appeared("a-worker-1"))
    assert file.read_text() == "127.0.0.1 localhost\n"
    names.seen(appeared("a-worker-0"))
    second = names.address(Key("team", "a-worker-1"))
    names.seen(appeared("a-worker-0"))
    lines = file.read_text().splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["a-worker-0", "a-worker-1"]
    assert lines[1].split()[0] == second


def appeared(name):
    return Change(None, SimpleNamespace(namespace="team", name=name))
