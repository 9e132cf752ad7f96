"""Programs of this machine: what they print, how they end, and that nothing of them is left."""

import os
import signal
from queue import Queue

import pytest

from genericjob.local.addresses import Addresses, claim
from genericjob.local.containers import Launch
from genericjob.local.keepers import OwnChildren
from genericjob.local.processes import Processes
from genericjob.local.sources import CannotStartError
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import Key
from harness.clusters import eventually

pytestmark = pytest.mark.processes

PATIENCE = 30


class Program:
    """A program and what was heard of it, in order."""

    def __init__(self, processes, *argv, env=None, directory=None):
        self._heard, self._rest = Queue(), b""
        launch = self.launch(*argv, env=env, directory=directory)
        self.process = processes.start(launch, told=self._told, ended=self._heard.put)

    def _told(self, data):
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            lines, self._rest = [self._rest], b""
        for line in lines:
            self._heard.put(line.decode())

    @staticmethod
    def launch(*argv, env=None, directory=None):
        return Launch(argv, {**os.environ, **(env or {})}, directory)

    def line(self):
        return self._heard.get(timeout=PATIENCE)

    def rest(self):
        """Everything up to the exit code, which is the last of it."""
        heard = [self._heard.get(timeout=PATIENCE)]
        while not isinstance(heard[-1], int):
            heard.append(self._heard.get(timeout=PATIENCE))
        return heard


@pytest.fixture(params=["warden", "children"])
def processes(request, monkeypatch):
    if request.param == "children":
        monkeypatch.setattr("genericjob.local.processes.keeper", OwnChildren)
    found = Processes(primitives=System())
    yield found
    assert found.close()


def sh(processes, script, **kwargs):
    return Program(processes, "sh", "-c", script, **kwargs)


def lives(pid):
    """Whether a process runs; one that waits to be reaped by somebody else does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ------------------------------------------------------------------------------------------------ output and ends


def test_lines_come_before_the_exit_code(processes):
    assert sh(processes, "echo one; echo two >&2; printf three; exit 4").rest() == ["one", "two", "three", 4]


def test_a_signal_is_told_as_128_and_its_number(processes):
    assert sh(processes, "kill -KILL $$").rest() == [137]


def test_a_program_gets_its_environment_and_its_directory(processes, tmp_path):
    assert sh(processes, "echo $WHO in $(pwd)", env={"WHO": "me"}, directory=str(tmp_path)).rest() == [f"me in {tmp_path}", 0]


def test_a_program_without_a_directory_starts_where_the_run_did(processes, tmp_path):
    assert sh(processes, "pwd", directory=str(tmp_path)).rest() == [str(tmp_path), 0]
    assert sh(processes, "pwd").rest() == [os.getcwd(), 0]


def test_a_program_has_nothing_to_read(processes):
    assert sh(processes, "cat; echo end").rest() == ["end", 0]


def test_lines_come_while_the_program_runs(processes):
    program = sh(processes, "echo ready; sleep 600")
    assert program.line() == "ready"
    program.process.signal(signal.SIGTERM)
    assert program.rest() == [143]


def test_a_program_that_closes_its_output_still_has_an_end(processes):
    program = sh(processes, "echo last; exec >&- 2>&-; sleep 600")
    assert program.line() == "last"
    program.process.signal(signal.SIGTERM)
    assert program.rest() == [143]


def test_many_programs_are_heard_at_once(processes):
    programs = [sh(processes, f"echo {n}; exit {n}") for n in range(40)]
    assert [program.rest() for program in programs] == [[str(n), n] for n in range(40)]


def test_more_output_than_a_pipe_holds_is_heard_to_the_end(processes):
    *lines, code = sh(processes, "i=0; while [ $i -lt 20000 ]; do echo line $i of many; i=$((i+1)); done").rest()
    assert (len(lines), lines[-1], code) == (20000, "line 19999 of many", 0)


def test_output_is_passed_on_as_the_bytes_that_it_is_and_its_end_as_no_bytes(processes):
    heard, over = [], Queue()
    script = r"printf 'a\000b\r\n\377'; head -c 300000 /dev/zero | tr '\000' x"
    processes.start(Program.launch("sh", "-c", script), told=heard.append, ended=over.put)
    assert over.get(timeout=PATIENCE) == 0
    assert b"".join(heard) == b"a\0b\r\n\xff" + b"x" * 300_000
    assert [number for number, data in enumerate(heard) if not data] == [len(heard) - 1]


# ------------------------------------------------------------------------------------------------ groups


def test_children_end_with_the_program(processes):
    program = sh(processes, "sleep 600 & echo $!; exit 0")
    child, code = program.rest()
    assert code == 0
    eventually(lambda: not lives(int(child)))


def test_a_signal_reaches_children_too(processes):
    child = "trap 'echo child ends; exit' TERM; echo up; while :; do sleep 600 & wait; done"
    program = sh(processes, 'trap : TERM; sh -c "$CHILD" & wait; wait', env={"CHILD": child})
    assert program.line() == "up"
    program.process.signal(signal.SIGTERM)
    assert program.rest() == ["child ends", 0]


def test_ctrl_c_at_the_terminal_does_not_reach_programs(processes):
    program = sh(processes, "echo $$; sleep 600")
    pid = int(program.line())
    assert os.getpgid(pid) == os.getsid(pid) == pid != os.getpgid(0)


def test_a_signal_to_a_program_that_has_ended_is_not_sent(processes, monkeypatch):
    program = sh(processes, "exit 0")
    program.rest()
    sent = []
    monkeypatch.setattr(os, "killpg", lambda *args: sent.append(args))
    program.process.signal(signal.SIGTERM)
    assert sent == []
    assert sh(processes, "echo next").rest() == ["next", 0]


@pytest.mark.parametrize("processes", ["children"], indirect=True)
def test_a_daemon_that_holds_the_output_open_does_not_keep_the_end_back(processes, tmp_path):
    daemon = "setsid sh -c 'echo $$ > new; mv new pid; exec sleep 600'"
    program = sh(processes, f"{daemon} & while [ ! -e pid ]; do sleep 0.01; done", directory=str(tmp_path))
    assert program.rest() == [0]
    pid = int((tmp_path / "pid").read_text())
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


def test_closing_kills_everything_at_once():
    processes = Processes(primitives=System())
    program = sh(processes, "trap '' TERM; echo $$; while :; do sleep 600; done")
    pid = int(program.line())
    assert processes.close()
    assert program.rest() == [137]
    assert not lives(pid)
    assert processes.close()  # and again, which does nothing
    with pytest.raises(CannotStartError, match="the run is over"):
        sh(processes, "echo")


# ------------------------------------------------------------------------------------------------ what cannot start


@pytest.mark.parametrize(
    ("argv", "directory", "words"),
    [
        (["no-such-program"], None, "there is no program 'no-such-program' on this machine"),
        (["sh"], "/no/such/place", "workingDir /no/such/place does not exist on this machine"),
        (["sh"], "/etc/passwd", "workingDir /etc/passwd cannot be entered: Not a directory"),
        (["/etc"], None, "/etc.*cannot be started: Permission denied"),
        (["sh", "a\0b"], None, "'sh' cannot be started: there is a zero byte in its arguments or variables"),
        (["sh", "\ud800"], None, "'sh' cannot be started: .*surrogates not allowed"),
    ],
)
def test_what_cannot_start_says_why(processes, argv, directory, words):
    with pytest.raises(CannotStartError, match=words):
        Program(processes, *argv, directory=directory)


SCRIPTS = {
    "no_interpreter": (b"#!/no/interp -x\n", 0o755),
    "crlf": (b"#!/bin/sh\r\necho on\r\n", 0o755),
    "empty_line": (b"#! \n", 0o755),
    "plain": (b"echo on\n", 0o755),
    "foreign": (b"\x7fELF", 0o755),
    "locked": (b"#!/bin/sh\n", 0o644),
}


@pytest.fixture
def scripts(tmp_path):
    for name, (content, mode) in SCRIPTS.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    (tmp_path / "folder").mkdir()
    return tmp_path


WHY = [
    ("no_interpreter", "there is no '/no/interp' on this machine, the interpreter that its first line names"),
    (
        "crlf",
        "behind its interpreter '/bin/sh' the first line ends with a carriage return, as on Windows: `sed -i 's/\\r$//' HERE` removes it",
    ),
    ("empty_line", "its first line names no interpreter behind #!"),
    ("plain", "its first line names no interpreter: let it be #!/bin/sh, for example, or name the interpreter before it"),
    ("foreign", "it was made for another machine or system"),
    ("locked", "it is not executable: `chmod +x HERE`, or name its interpreter before it"),
    ("folder", "it is a directory: name a program in it"),
]


@pytest.mark.parametrize(("name", "why"), WHY)
def test_a_file_that_cannot_be_started_says_what_to_do(processes, scripts, name, why):
    for how in ({"directory": str(scripts)}, {"env": {"PATH": str(scripts)}}):
        with pytest.raises(CannotStartError) as caught:
            Program(processes, f"./{name}" if "directory" in how else name, **how)
        shown = f"./{name}" if "directory" in how else name
        assert str(caught.value).startswith(f"{shown!r} cannot be started: ")
        path = f"{scripts}/{shown}" if "directory" in how else f"{scripts}/{name}"
        assert str(caught.value).endswith(f": {why.replace('HERE', path)}")


def test_a_program_that_is_not_in_the_path_that_it_gets_says_so(processes):
    with pytest.raises(CannotStartError, match=r"'sh' on this machine: it is in no directory of the PATH that it gets, '/no/such:/place'$"):
        Program(processes, "sh", env={"PATH": "/no/such:/place"})


@pytest.mark.parametrize("name", ["", "A=B"])
def test_a_variable_that_cannot_be_says_why(processes, name):
    with pytest.raises(CannotStartError, match="a variable has no name, or one with a `=`"):
        Program(processes, "true", env={name: "x"})


def test_a_program_is_looked_for_where_it_will_look_itself(processes, tmp_path):
    (tmp_path / "greet").write_text("#!/bin/sh\necho hello from $0\n")
    (tmp_path / "greet").chmod(0o755)
    path = f"/no/such/place:{tmp_path}:{os.environ['PATH']}"
    assert Program(processes, "greet", env={"PATH": path}).rest() == [f"hello from {tmp_path}/greet", 0]
    assert Program(processes, "./greet", directory=str(tmp_path)).rest() == ["hello from ./greet", 0]


def test_arguments_and_variables_larger_than_a_socket_holds_arrive(processes):
    words = ["x" * 100_000] * 8
    assert Program(processes, "sh", "-c", "echo $# ${#BIG}", "sh", *words, env={"BIG": "y" * 100_000}).rest() == ["8 100000", 0]


def test_programs_find_signals_as_they_are_everywhere(processes, request):
    """Children of ours ignore what somebody (nohup, a shell's &) has made us ignore, but not what Python ignores."""
    blocked, ignored, code = sh(processes, "grep -E 'Sig(Blk|Ign)' /proc/self/status").rest()
    assert (int(blocked.split()[1], 16), code) == (0, 0)
    made = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN} - {signal.SIGPIPE, signal.SIGXFSZ}
    found = {number for number in range(1, 32) if int(ignored.split()[1], 16) >> (number - 1) & 1}  # those above are the C library's
    assert found <= (made if request.node.callspec.params["processes"] == "children" else set())


def test_a_file_without_an_interpreter_says_why(processes, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(b"\x00\x01")
    file.chmod(0o755)
    with pytest.raises(CannotStartError, match="Exec format error"):
        Program(processes, str(file))


# ------------------------------------------------------------------------------------------------ addresses


def test_every_name_has_one_address():
    addresses = Addresses(network=7)
    names = [Key("a", "train-worker-0"), Key("a", "train-worker-1"), Key("b", "train-worker-0")]
    assert [addresses.of(name) for name in names] == ["127.7.0.1", "127.7.0.2", "127.7.0.3"]
    assert [addresses.of(name) for name in names] == ["127.7.0.1", "127.7.0.2", "127.7.0.3"]


def test_names_that_were_reserved_have_addresses_by_their_order_whoever_asks_first():
    names = [Key("a", f"train-worker-{rank}") for rank in range(3)]
    addresses = Addresses(network=7)
    addresses.reserve(names)
    assert [addresses.of(name) for name in (Key("a", "late"), *reversed(names))] == ["127.7.0.4", "127.7.0.3", "127.7.0.2", "127.7.0.1"]


def test_thousands_of_names_have_addresses_that_hosts_may_have():
    addresses = Addresses(network=7)
    found = [addresses.of(Key("a", str(n))) for n in range(10_000)]
    assert len(set(found)) == 10_000
    assert found[250] == "127.7.1.1"
    assert not any(each.endswith((".0", ".255")) for each in found)


def test_two_runs_have_networks_of_their_own():
    with claim(range(1, 255))[1] as first, claim(range(1, 255))[1] as second:
        assert first.getsockname()[0] != second.getsockname()[0]


def test_a_network_that_was_given_back_is_free_again():
    network, keeper = claim(range(1, 255))
    keeper.close()
    again, keeper = claim([network])
    keeper.close()
    assert again == network
    with claim([network])[1], pytest.raises(OSError, match="no network"):
        claim([network])
