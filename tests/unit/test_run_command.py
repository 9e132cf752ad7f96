"""`genericjob run` as people call it: a program of its own, with exit codes, on a pipe or a terminal."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from harness.terminal import on_terminal

pytestmark = pytest.mark.processes

GENERICJOB = [sys.executable, "-m", "genericjob.cli"]
PATIENCE = 60.0


def job(script, *, replicas=1, name="j", **spec):
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    part = {"type": "w", "replicas": replicas, "template": {"spec": {"containers": [container], **spec.pop("pod", {})}}}
    part |= spec.pop("part", {})
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [part], **spec},
    }


@pytest.fixture
def env(tmp_path):
    """Directories of the test's own; programs of its runs can be found by the marker in their environment."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "r"), "XDG_STATE_HOME": str(tmp_path / "s"), "MARKER": str(tmp_path)}


@pytest.fixture
def manifest(tmp_path):
    def write(*documents, name="m.yaml"):
        file = tmp_path / name
        file.write_text("\n---\n".join(each if isinstance(each, str) else yaml.safe_dump(each) for each in documents))
        return str(file)

    return write


@pytest.fixture
def run(env):
    def call(*arguments, stdin=None, cwd=None):
        argv = [*GENERICJOB, "run", *arguments]
        return subprocess.run(argv, env=env, input=stdin, capture_output=True, text=True, timeout=PATIENCE, cwd=cwd)

    return call


def programs(tmp_path):
    """Processes that carry the test's marker."""
    wanted, found = f"MARKER={tmp_path}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # it has ended
                continue
    return found


def eventually(question):
    deadline = time.monotonic() + PATIENCE
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------------ exit codes


def test_several_files_and_standard_input_make_one_run(run, manifest):
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "one"}}
    reads = job("echo $A")
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
    reads["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"] = env
    result = run(manifest(reads), "-", stdin=yaml.safe_dump(settings))
    assert (result.returncode, result.stderr) == (0, "")
    assert "w-0 | one" in result.stdout.splitlines()
    assert "j: not honoured here: image" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_rule_that_fails_the_job_is_exit_code_1(run, manifest):
    result = run(manifest(job("exit 7", failureRules=[{"w": [0]}])))
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == 'j failed: the rule {"w":[0]} is met'


def test_a_program_that_is_not_there_is_exit_code_2(run, manifest):
    missing = job("")
    missing["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["command"] = ["no-such-program"]
    result = run(manifest(missing))
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is no program 'no-such-program' on this machine" in result.stderr


def test_a_bad_manifest_is_exit_code_2_and_says_all_that_is_wrong(run, manifest):
    bad = job("true", nonsense=1)
    bad["spec"]["replicaSpecs"][0]["replicas"] = -1
    file = manifest(bad)
    result = run(file)
    assert (result.returncode, result.stdout) == (2, "")
    told = result.stderr.splitlines()
    assert len(told) == 2
    assert all(re.match(rf"genericjob: {re.escape(file)}:\d+: error: spec\.", line) for line in told)


def test_a_missing_secret_is_exit_code_2(run, manifest):
    lacks = job("true")
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "a"}}}]
    lacks["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"] = env
    result = run(manifest(lacks))
    assert result.returncode == 2
    assert result.stderr == "genericjob: j: all ranks that have not ended wait for what no file has: w-0: Secret 'absent' not found\n"


def test_strict_refuses_what_a_process_cannot_honour(run, manifest):
    result = run("--strict", manifest(job("true", pod={"nodeSelector": {"a": "b"}})))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("genericjob: j: not honoured by a process: ")
    assert "nodeSelector" in result.stderr


# ------------------------------------------------------------------------------------------------ what the command line changes


def test_a_file_can_be_given_as_to_apply(run, manifest):
    result = run("-f", manifest(job("echo hello")))
    assert (result.returncode, "w-0 | hello" in result.stdout.splitlines()) == (0, True)
    assert (run().returncode, run().stderr) == (2, "genericjob: which file? genericjob run FILE\n")


def test_programs_start_where_the_shell_is_or_where_chdir_says(run, manifest, tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "say.sh").write_text("echo from $(basename $(pwd))\n")
    file = manifest(job("exec sh ./say.sh"))
    result = run("--chdir", str(tmp_path / "place"), "--logs", "kept", file, cwd=tmp_path)
    assert (result.returncode, "w-0 | from place" in result.stdout.splitlines()) == (0, True)
    assert (tmp_path / "kept" / "j-w-0" / "1" / "main.log").read_text() == "from place\n"
    result = run("--chdir", "nowhere", file, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (2, "genericjob: --chdir nowhere: No such file or directory\n")
    result = run("--chdir", "", file, cwd=tmp_path)
    told = "genericjob: --chdir '': it is empty: leave the option out for the directory of the shell\n"
    assert (result.returncode, result.stderr) == (2, told)


def test_a_relative_path_that_leads_nowhere_says_to_what_it_is_relative(run, manifest, tmp_path):
    lost = job("")
    lost["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["command"] = ["./train.sh"]
    (tmp_path / "elsewhere").mkdir()
    result = run(manifest(lost, name="elsewhere/m.yaml"), cwd=tmp_path)
    assert result.returncode == 2
    hint = f"(relative to {tmp_path}; --chdir DIR changes that)"
    assert result.stderr.endswith(f"command: there is no program './train.sh' on this machine {hint}\n")


def test_replicas_and_variables_are_set_for_one_run(run, manifest):
    spec = job("echo $(replicas[w]) $A $B", replicas=8, successRules=[{"w": [0, 1]}])
    spec["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "old"},
        {"name": "B", "value": "$(A)"},
    ]
    result = run("--set", "replicas.w=2", "--env", "A=new", "--env", "C=x=y", manifest(spec))
    assert result.returncode == 0
    assert {line for line in result.stdout.splitlines() if " | " in line} == {"w-0 | 2 new new", "w-1 | 2 new new"}


# ------------------------------------------------------------------------------------------------ for machines


def test_json_has_an_object_for_everything_that_happens(run, manifest, tmp_path):
    script = f"echo '[hi] \"you\"'; [ -e {tmp_path}/n ] || {{ touch {tmp_path}/n; exit 3; }}"
    result = run("-o", "json", manifest(job(script, part={"restartPolicy": {"policy": "OnFailure", "limit": 1}})))
    assert result.returncode == 0
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["begin", "end"]
    assert (events[0]["run"], events[0]["jobs"]) == ("j", ["j"])
    line = next(event for event in events if event["event"] == "line")
    assert {key: line[key] for key in ("job", "type", "rank", "container", "text")} == {
        "job": "j",
        "type": "w",
        "rank": 0,
        "container": "main",
        "text": '[hi] "you"',
    }
    failed = next(event for event in events if event["event"] == "rank" and event["phase"] == "Failed")
    assert (failed["exitCode"], failed["restarts"], failed["message"]) == (3, 1, "failed with exit code 3, restart 1 of 1")
    assert "Succeeded" in [event["phase"] for event in events if event["event"] == "job"]
    end = events[-1]
    assert end["exitCode"] == 0
    assert end["jobs"][0]["status"]["phase"] == "Succeeded"
    assert end["jobs"][0]["message"].startswith("succeeded: ")
    assert sorted(path.name for path in Path(end["logs"]).rglob("*.log")) == ["main.log", "main.log"]


# ------------------------------------------------------------------------------------------------ two hundred, two at once


def test_two_hundred_ranks_run_and_their_lines_all_come(run, manifest):
    result = run(manifest(job("echo I am $(rank); echo bye", replicas=200)))
    assert result.returncode == 0
    said = {line.partition("| ")[2] for line in result.stdout.splitlines() if "I am" in line}
    assert said == {f"I am {rank}" for rank in range(200)}
    assert "200 ranks, 200 succeeded" in result.stdout


def test_two_runs_at_once_have_names_and_networks_of_their_own(manifest, env, tmp_path):
    file = manifest(job(f"echo $(service.w[0].host); until [ -e {tmp_path}/go ]; do sleep 0.05; done", service={"ports": [{"port": 1}]}))
    argv = [*GENERICJOB, "run", "-o", "json", file]
    both = [subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        hosts, names = [], []
        for program in both:
            for line in program.stdout:
                event = json.loads(line)
                names += [event["run"]] if event["event"] == "begin" else []
                if event["event"] == "line":
                    hosts.append(event["text"])
                    break
        (tmp_path / "go").touch()
        for program in both:
            program.stdout.read()
            assert program.wait(PATIENCE) == 0
    finally:
        for program in both:
            program.kill()
            program.wait()
            program.stdout.close()
    assert sorted(names) == ["j", "j-2"]
    assert len(set(hosts)) == 2


def test_a_run_is_paused_and_resumed_by_commands(manifest, env, tmp_path):
    script = f"echo >> {tmp_path}/n; echo run $(wc -l < {tmp_path}/n); [ $(wc -l < {tmp_path}/n) -ge 2 ] || sleep 600"
    argv = [*GENERICJOB, "run", "-o", "json", "--name", "mine", manifest(job(script))]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as program:
        events = map(json.loads, program.stdout)
        assert next(event["text"] for event in events if event["event"] == "line") == "run 1"
        subprocess.run([*GENERICJOB, "pause", "j", "--run", "mine"], env=env, check=True, timeout=PATIENCE)
        paused = next(event for event in events if event["event"] == "job" and event["phase"] == "Paused")
        assert paused["message"] == "Paused: `genericjob resume j --run mine` lets it go on"
        subprocess.run([*GENERICJOB, "resume", "j", "--run", "mine"], env=env, check=True, timeout=PATIENCE)
        assert next(event["text"] for event in events if event["event"] == "line") == "run 2"
        assert list(events)[-1]["exitCode"] == 0
    assert program.returncode == 0


def test_logs_show_a_line_before_it_ends(manifest, env, tmp_path):
    script = f"printf 'half'; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo ' done'"
    argv = [*GENERICJOB, "run", "-o", "json", "--name", "mine", manifest(job(script))]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as program:
        next(line for line in program.stdout if '"phase":"Running"' in line)
        follow = [*GENERICJOB, "logs", "j", "--run", "mine", "-f"]
        with subprocess.Popen(follow, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as logs:
            assert logs.stdout.readline() == "w-0 | half\n"
            (tmp_path / "go").touch()
            assert logs.stdout.readline() == "w-0 +  done\n"
            assert [json.loads(line)["text"] for line in program.stdout if '"line"' in line] == ["half done"]
    assert (program.returncode, logs.returncode) == (0, 0)


# ------------------------------------------------------------------------------------------------ on a terminal


def test_a_terminal_shows_lines_in_colours_above_a_table_of_ranks(manifest, env, tmp_path):
    script = f"echo hello; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    with on_terminal([*GENERICJOB, "run", manifest(job(script, replicas=2))], env=env) as run:
        assert run.until(lambda screen: _rows(screen) == {"w-0": "Running", "w-1": "Running"})
        assert run.until(lambda screen: sum("| hello" in line for line in screen.seen) == 2)
        assert run.until(lambda screen: any("j   Running" in line for line in screen.seen))
        table = run.screen.seen
        rule = next(number for number, line in enumerate(table) if line.startswith("───"))
        assert any("| hello" in line for line in table[:rule])
        assert table[rule + 1].startswith("j   Running   0 of 2 succeeded")
        assert table[rule + 2].split() == ["RANK", "PHASE", "RESTARTS", "EXIT", "CODE", "AGE"]
        assert len(table) - rule <= 13
        (tmp_path / "go").touch()
        assert run.end() == 0
    assert re.search("\x1b\\[36mw-[01] \\|\x1b\\[0m hello", run.raw)
    assert not any(line.startswith("───") for line in run.screen.all)
    assert run.screen.seen[-2].startswith("j succeeded")


def _rows(screen):
    found = [line.split() for line in screen.seen if line.startswith("w-") and "|" not in line and "*" not in line]
    return {row[0]: row[1] for row in found if len(row) > 1}


def test_a_small_terminal_gets_a_summary_and_is_never_filled(manifest, env, tmp_path):
    says = "echo $(rank) says something that is longer than the line; [ $(rank) != 3 ] || exit 3"
    script = f"{says}; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    file = manifest(job(script, replicas=8, failureRules=[{"w": [0]}], successRules=[{"w": [0, 1]}]))
    with on_terminal([*GENERICJOB, "run", file], columns=40, rows=10, env=env) as run:
        assert run.until(lambda screen: any("8 x w: 7 running, 1 failed" in line for line in screen.seen))
        assert run.until(lambda screen: any(line.startswith("w-3") and "Failed" in line and "*" not in line for line in screen.seen))
        rule = next(number for number, line in enumerate(run.screen.seen) if line.startswith("───"))
        assert len([line for line in run.screen.seen[rule:] if line]) <= 5
        run.resize(30, 10)
        (tmp_path / "go").touch()
        assert run.end() == 0


def test_a_terminal_without_colours_or_without_a_table(manifest, env):
    file = manifest(job("printf 'a\\033[2Jb\\rover\\n'"))
    with on_terminal([*GENERICJOB, "run", file], env={**env, "NO_COLOR": "1"}) as run:
        assert run.end() == 0
        assert not re.search("\x1b\\[[0-9;]*3[0-9]m", run.raw)
        assert "w-0 | over" in run.screen.all
    with on_terminal([*GENERICJOB, "run", "--plain", manifest(job("echo hello"))], env=env) as run:
        assert run.end() == 0
        assert "───" not in run.raw
        assert "\x1b[36mw-0 |\x1b[0m hello" in run.raw


def test_a_dumb_terminal_gets_no_colours_and_no_table(manifest, env):
    with on_terminal([*GENERICJOB, "run", manifest(job("echo hello"))], env={**env, "TERM": "dumb"}) as run:
        assert run.end() == 0
    assert "w-0 | hello" in run.screen.all
    assert "\x1b" not in run.raw


def test_a_message_with_lines_and_orders_leaves_the_table_where_it_is(manifest, env, tmp_path):
    script = (
        f"[ $(rank) = 0 ] || {{ until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 0; }}; printf 'one\\ntwo\\033[2J\\033[5A\\n'; exit 3"
    )
    failing = job(script, replicas=2, successRules=[{"w": [1]}], failureRules=[{"w": [1]}])
    failing["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    with on_terminal([*GENERICJOB, "run", manifest(failing)], columns=100, env=env) as run:
        assert run.until(lambda screen: _rows(screen) == {"w-0": "Failed", "w-1": "Running"})
        row = next(line for line in run.screen.seen if line.startswith("w-0") and "Failed" in line)
        assert row.endswith("main: one two^[[2J^[[5A")
        (tmp_path / "go").touch()
        assert run.end() == 0
    assert not any(line.startswith("───") for line in run.screen.all)
    assert any("w-0 * main: one two^[[2J^[[5A" in line for line in run.screen.all)


# ------------------------------------------------------------------------------------------------ where it is written


def test_a_reader_who_leaves_has_programs_asked_to_end(manifest, env, tmp_path):
    script = f"trap 'echo bye > {tmp_path}/bye; exit 0' TERM; while :; do echo on and on; sleep 0.05; done"
    argv = [*GENERICJOB, "run", manifest(job(script))]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert next(line for line in program.stdout if "on and on" in line)
        program.stdout.close()
        told = program.stderr.read()
        assert program.wait(PATIENCE) == 1
    asked = "the programs are asked to end, within 30 s (their grace period); Ctrl-C kills them"
    assert told == f"genericjob: the output is lost (Broken pipe): {asked}\n"
    assert (tmp_path / "bye").read_text() == "bye\n"
    assert list((tmp_path / "r").rglob("*.yaml")) == []


def test_what_standard_output_has_no_letters_for_is_replaced(manifest, env, run):
    env["PYTHONIOENCODING"] = "ascii"
    result = run(manifest(job("echo 'grüße 你好'")))
    assert (result.returncode, result.stderr) == (0, "")
    assert "w-0 | gr??e ??" in result.stdout.splitlines()


def test_a_run_without_standard_streams_says_what_it_lacks_and_misses_no_other(manifest, env):
    def shell(words):
        line = f'"$0" -m genericjob.cli run {words}'
        argv = ["sh", "-c", line, sys.executable, manifest(job("true"))]
        result = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE)
        return result.returncode, result.stderr

    assert shell("- <&-") == (2, "genericjob: standard input: is closed\n")
    assert shell('-o json "$1" >&-') == (0, "")
    assert shell('"$1" >&-') == (0, "")


# ------------------------------------------------------------------------------------------------ Ctrl-C


def test_ctrl_c_asks_programs_to_end_and_leaves_none(manifest, env, tmp_path):
    script = "trap 'echo bye; exit 0' TERM; (sleep 600 &); echo up; while :; do sleep 600 & wait; done"
    with on_terminal([*GENERICJOB, "run", manifest(job(script, replicas=2))], env=env) as run:
        assert run.until(lambda screen: sum("| up" in line for line in screen.seen) == 2)
        run.type("\x03")
        assert run.end() == 130
        assert sum("| bye" in line for line in run.screen.all) == 2
        assert "j was interrupted" in run.screen.seen
    eventually(lambda: not programs(tmp_path))


def test_a_second_ctrl_c_kills_and_leaves_none(manifest, env, tmp_path):
    script = "trap 'echo no' TERM; echo up; while :; do sleep 600 & wait; done"
    file = manifest(job(script, pod={"terminationGracePeriodSeconds": 600}))
    with on_terminal([*GENERICJOB, "run", file], env=env) as run:
        assert run.until(lambda screen: any("| up" in line for line in screen.seen))
        run.type("\x03")
        assert run.until(lambda screen: any("| no" in line for line in screen.seen))
        run.type("\x03")
        assert run.end() == 130
    eventually(lambda: not programs(tmp_path))


@pytest.mark.parametrize("times", [3, 4])
def test_however_often_ctrl_c_is_pressed_nothing_stays_behind(manifest, env, tmp_path, times):
    (tmp_path / "t").mkdir()
    script = "trap '' TERM; echo up; while :; do sleep 1; done"
    with on_terminal([*GENERICJOB, "run", manifest(job(script))], env={**env, "TMPDIR": str(tmp_path / "t")}) as run:
        assert run.until(lambda screen: any("| up" in line for line in screen.seen))
        assert list((tmp_path / "t").iterdir())
        for _ in range(times):
            run.program.send_signal(signal.SIGINT)
            time.sleep(0.02)  # or two of them would be one
        assert run.end() == 130
    assert [line for line in run.screen.all if line][-1] == "j was interrupted"
    assert not any(line.startswith("───") for line in run.screen.all)
    assert list((tmp_path / "t").iterdir()) == []
    assert list((tmp_path / "r").rglob("*.yaml")) == []
    eventually(lambda: not programs(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the group of a killed run's programs goes on")
def test_a_run_that_is_killed_leaves_none(manifest, env, tmp_path):
    argv = [*GENERICJOB, "run", manifest(job("(setsid sleep 600 &); echo up; sleep 600", replicas=2))]
    program = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
    with program.stdout:
        up = sum("| up" in line for _, line in zip(range(2), (line for line in program.stdout if "| up" in line), strict=False))
        assert up == 2
        program.send_signal(signal.SIGKILL)
        program.wait(PATIENCE)
        eventually(lambda: not programs(tmp_path))
