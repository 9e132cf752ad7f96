"""A run that is talked to while it goes on: paused, resumed, debugged, deleted, given what it lacks."""

import io
import threading

import pytest
import yaml

from genericjob.cli.documents import BadInputError, runnable
from genericjob.cli.run import Run
from genericjob.cli.screen import Screen
from genericjob.jobs.resource import JOBS
from genericjob.local import runs
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, SECRETS, Key

pytestmark = pytest.mark.processes

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def own_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Talk(Screen):
    """A screen that can be waited for, and at which things are done when something is seen."""

    def __init__(self):
        self.out = io.StringIO()
        super().__init__(self.out)
        self._acts = []

    def on(self, words, act):
        """Do something in another thread as soon as these words are on the screen, after what was to be done before."""
        self._acts.append((words, act))
        return self

    def refresh(self, *, busy):
        if self._acts and self._acts[0][0] in self.out.getvalue():
            _, act = self._acts.pop(0)
            threading.Thread(target=act, daemon=True).start()
        super().refresh(busy=busy)
        return 0.01 if self._acts else None

    @property
    def lines(self):
        return self.out.getvalue().splitlines()


@pytest.fixture
def go(tmp_path):
    def run(talk, *documents, **options):
        file = tmp_path / "manifest.yaml"
        file.write_text("\n---\n".join(map(yaml.safe_dump, documents)))
        return Run(runnable([str(file)]), talk, **options).go()

    return run


def api(name=""):
    return HttpApi(runs.reach(name).credentials)


def job(script, *, replicas=1, name="j", env=(), **spec):
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "env": list(env)}
    template = {"spec": {"containers": [container]}}
    part = {"type": "w", "replicas": replicas, "template": template, **spec.pop("part", {})}
    meta = {"name": name}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": meta,
        "spec": {"replicaSpecs": [part], **spec},
    }


def patch(spec):
    return lambda: api().patch(JOBS, Key("default", "j"), {"spec": spec})


def delete():
    api().delete(JOBS, Key("default", "j"), propagation="Background")


def reading(kind, name):
    source = "configMapKeyRef" if kind == "ConfigMap" else "secretKeyRef"
    return {"name": "A", "valueFrom": {source: {"name": name, "key": "a"}}}


# ------------------------------------------------------------------------------------------------ pause, resume, debug, delete


def test_a_job_is_paused_and_resumed_by_command(go, tmp_path):
    script = f"echo >> {tmp_path}/n; echo run $(wc -l < {tmp_path}/n); [ -e {tmp_path}/go ] || sleep 600"
    talk = Talk().on("w-0 | run 1", patch({"suspend": True}))

    def resume():
        (tmp_path / "go").touch()
        patch({"suspend": False})()

    talk.on("lets it go on", resume)
    assert go(talk, job(script)) == 0
    assert "j   * Paused: `genericjob resume j --run j` lets it go on" in talk.lines
    assert "w-0 | run 2" in talk.lines


def test_what_becomes_odd_by_a_change_is_told_by_the_controller(go):
    talk = Talk()
    told = "failureRules[0] can never fire: there is no replica of type 'nobody'"
    talk.on("runs at", patch({"failureRules": [{"nobody": [0]}]}))
    talk.on(told, delete)
    assert go(talk, job("sleep 600")) == 1
    assert len([line for line in talk.lines if told in line]) == 1


def test_a_job_that_begins_paused_waits_for_its_command(go):
    talk = Talk().on("j   * Paused", patch({"suspend": False}))
    assert go(talk, job("echo hello", suspend=True)) == 0
    assert "w-0 | hello" in talk.lines


def test_ranks_that_are_no_more_are_not_in_the_table_at_the_end(go, tmp_path):
    wanted = job(f"echo on; [ -e {tmp_path}/go ] || sleep 600", replicas=3)

    def resume():
        (tmp_path / "go").touch()
        fewer = [{**part, "replicas": 1} for part in wanted["spec"]["replicaSpecs"]]
        patch({"suspend": False, "replicaSpecs": fewer})()

    talk = Talk().on("w-2 | on", patch({"suspend": True})).on("lets it go on", resume)
    assert go(talk, wanted) == 0
    table = talk.lines[next(number for number, line in enumerate(talk.lines) if line.startswith("RANK")) + 1 :]
    assert [line.split()[0] for line in table if line.startswith("w-")] == ["w-0"]


def test_a_debugged_job_says_that_it_never_ends_and_can_be_let_go(go):
    off = patch({"suspend": True, "runMode": {"debug": {"enabled": False}}})
    talk = Talk().on("w-0 * runs", off).on("lets it go on", patch({"suspend": False}))
    assert go(talk, job("echo hello", runMode={"debug": {"enabled": True}})) == 0
    told = "warning: it is debugged: its programs wait, and it never ends by itself; Ctrl-C ends it; after `genericjob debug j --off"
    assert any(told in line for line in talk.lines)
    assert "w-0 | hello" in talk.lines


def test_a_job_that_is_deleted_by_command_ends_the_run(go):
    talk = Talk().on("w-0 | on", delete)
    assert go(talk, job("trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 600 & wait; done")) == 1
    assert talk.lines[-1] == "j was deleted"
    assert "w-0 | bye" in talk.lines


def row(talk, label):
    """Of the table at the end, in words."""
    start = next(number for number, line in enumerate(talk.lines) if line.startswith("RANK"))
    return next(line.split() for line in talk.lines[start:] if line.startswith(label))


def test_ranks_that_ran_before_a_pause_are_stopped_when_their_job_is_deleted(go):
    talk = Talk().on("w-0 | on", patch({"suspend": True})).on("lets it go on", delete)
    assert go(talk, job("echo on; sleep 600")) == 1
    assert row(talk, "w-0") == ["w-0", "Stopped"]


def test_ranks_that_never_ran_are_not_started_when_their_job_is_deleted(go):
    talk = Talk().on("lets it go on", delete)
    assert go(talk, job("echo on", suspend=True)) == 1
    assert row(talk, "w-0") == ["w-0", "Not", "started"]


def test_a_rank_that_is_to_run_again_when_its_job_ends_shows_how_it_last_failed(go):
    talk = Talk().on("failed with exit code 3, restart 4 of 9", delete)  # which is seconds away
    assert go(talk, job("exit 3", part={"restartPolicy": {"policy": "OnFailure", "limit": 9}})) == 1
    assert row(talk, "w-0") == ["w-0", "Failed", "4", "3"]


def test_a_job_that_is_applied_to_a_run_is_shown_and_ends_with_it(go, tmp_path):
    patient = "trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 600 & wait; done"

    def apply():
        api().create(JOBS, job(patient, name="other"), "default")

    def let_go():
        (tmp_path / "go").touch()

    talk = Talk().on("j   * Running", apply).on("other-w-0 | on", let_go)
    assert go(talk, job(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done")) == 0
    assert "other-w-0 | bye" in talk.lines
    assert talk.lines[-1].startswith("j succeeded")


# ------------------------------------------------------------------------------------------------ what is missing


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_a_run_in_which_all_wait_for_what_nobody_brings_is_given_up(go, kind):
    talk = Talk()
    with pytest.raises(BadInputError, match=rf"j: all ranks .* w-\d \(and 1 more\): {kind} 'absent' not found"):
        go(talk, job("true", replicas=2, env=[reading(kind, "absent")]))
    told = [line for line in talk.lines if "warning" in line]
    assert len(told) == 1
    assert told[0].endswith(f"* warning: waits for what no file has: {kind} 'absent' not found")
    assert talk.lines[-1] == "j was given up"


def test_a_run_is_given_up_when_the_last_that_worked_has_failed(go, tmp_path):
    waits = job("true", env=[reading("Secret", "absent")])
    fails = job(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3")
    waits["spec"]["replicaSpecs"].append({**fails["spec"]["replicaSpecs"][0], "type": "v"})
    waits["spec"] |= {"successRules": [{"w": [0]}], "failureRules": [{"w": [0]}]}
    talk = Talk().on("Secret 'absent' not found", lambda: (tmp_path / "go").touch())
    with pytest.raises(BadInputError, match="Secret 'absent' not found"):
        go(talk, waits)
    assert "v-0 * failed with exit code 3" in talk.lines


def test_what_is_missing_can_be_brought_while_somebody_else_works(go, tmp_path):
    works = job(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", name="works")
    reads = job(f"echo $A; touch {tmp_path}/go", env=[reading("Secret", "late")])
    reads["spec"]["replicaSpecs"].append({**works["spec"]["replicaSpecs"][0], "type": "v"})

    def bring():
        api().create(SECRETS, {"metadata": {"name": "late"}, "stringData": {"a": "here I am"}}, "default")

    talk = Talk().on("brings what is missing", bring)
    assert go(talk, reads) == 0
    assert any(line.endswith("while others work, `genericjob apply -f FILE --run j` brings what is missing") for line in talk.lines)
    assert "w-0 | here I am" in talk.lines


def test_nobody_gives_up_while_a_rank_is_started_again(go, tmp_path):
    fails = f"echo >> {tmp_path}/n; [ $(wc -l < {tmp_path}/n) -ge 3 ] || exit 3; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    both = job(f"touch {tmp_path}/go", env=[reading("Secret", "late")])
    again = {"type": "v", "restartPolicy": {"policy": "OnFailure", "limit": 5}}
    both["spec"]["replicaSpecs"].append({**job(fails)["spec"]["replicaSpecs"][0], **again})

    def bring():
        api().create(SECRETS, {"metadata": {"name": "late"}, "stringData": {"a": "x"}}, "default")

    talk = Talk().on("restart 2 of 5", bring)
    assert go(talk, both) == 0


def test_a_paused_job_may_lack_what_it_likes(go):
    def bring():
        api().create(CONFIG_MAPS, {"metadata": {"name": "late"}, "data": {"a": "here I am"}}, "default")
        patch({"suspend": False})()

    talk = Talk().on("j   * Paused", bring)
    assert go(talk, job("echo $A", env=[reading("ConfigMap", "late")], suspend=True)) == 0
    assert "w-0 | here I am" in talk.lines


# ------------------------------------------------------------------------------------------------ restarts


def test_a_restart_is_told_with_its_number_and_limit(go, tmp_path):
    script = f"echo >> {tmp_path}/n; [ $(wc -l < {tmp_path}/n) -ge 3 ] || exit 3"
    talk = Talk()
    assert go(talk, job(script, part={"restartPolicy": {"policy": "OnFailure", "limit": 2}})) == 0
    told = [line for line in talk.lines if "restart" in line]
    assert told[0] == "w-0 * failed with exit code 3, restart 1 of 2"
    assert told[1].startswith("w-0 * failed with exit code 3, restart 2 of 2")
    assert any(line.split() == ["w-0", "Succeeded", "2", "0"] for line in talk.lines)


def test_a_failure_that_is_final_is_told_without_a_restart(go):
    talk = Talk()
    assert go(talk, job("exit 3", part={"restartPolicy": {"policy": "OnFailure", "limit": 1}})) == 1
    assert [line for line in talk.lines if "failed with" in line] == [
        "w-0 * failed with exit code 3, restart 1 of 1",
        "w-0 * failed with exit code 3",
    ]


def test_a_joint_restart_is_told(go, tmp_path):
    wait = f"until [ -e {tmp_path}/told ]; do sleep 0.05; done"  # an event may come late
    script = f"[ -e {tmp_path}/n ] || {{ touch {tmp_path}/n; exit 4; }}; {wait}"
    talk = Talk().on("restart of the whole job 1 of 1", (tmp_path / "told").touch)
    assert go(talk, job(script, part={"restartPolicy": {"policy": "OnFailure", "limit": 1, "scope": "Job"}})) == 0
    assert "w-0 * failed with exit code 4" in talk.lines
    assert "j was started again as a whole, once" in talk.lines


# ------------------------------------------------------------------------------------------------ reading along


def test_who_watches_hears_how_it_ended(go):
    seen, ready = [], threading.Event()

    def watch():
        client = api()
        start = client.list(JOBS, "default").resource_version
        with client.watch(JOBS, "default", resource_version=start) as stream:
            ready.set()
            seen.extend(event.object.status for event in stream if event.object)

    watcher = threading.Thread(target=watch, daemon=True)

    def begin():
        watcher.start()
        ready.wait(PATIENCE)
        patch({"suspend": False})()

    assert go(Talk().on("j   * Paused", begin), job("true", suspend=True)) == 0
    watcher.join(PATIENCE)
    assert b'"phase":"Succeeded"' in seen[-1]


def test_logs_are_read_and_followed_while_the_rank_prints(go, tmp_path):
    found = {}
    printed = threading.Event()

    def read():
        client = api()
        pod = RAW_PODS.path("default", "j-w-0", "log")
        found["tail"] = client.request("GET", pod, {"tailLines": "1"}).data
        (tmp_path / "go").touch()
        found["all"] = client.request("GET", pod, {"follow": "true"}).data
        printed.set()

    script = f"echo one; echo two; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo three"
    talk = Talk().on("w-0 | two", read)
    assert go(talk, job(script)) == 0
    assert printed.wait(PATIENCE)
    assert found["tail"] == b"two\n"
    assert found["all"] == b"one\ntwo\nthree\n"


def test_log_files_are_kept_by_rank_attempt_and_container(go, tmp_path):
    script = f"echo >> {tmp_path}/n; n=$(wc -l < {tmp_path}/n); echo try $n; [ $n -ge 2 ] || exit 3"
    talk = Talk()
    policy = {"restartPolicy": {"policy": "OnFailure", "limit": 1}}
    assert go(talk, job(script, part=policy), logs=tmp_path / "logs") == 0
    files = {str(path.relative_to(tmp_path / "logs")): path.read_text() for path in (tmp_path / "logs").rglob("*.log")}
    assert files == {"j-w-0/1/main.log": "try 1\n", "j-w-0/2/main.log": "try 2\n"}
    assert f"what they printed is in {tmp_path / 'logs'}" in talk.lines
    with pytest.raises(BadInputError, match="not empty"):
        go(Talk(), job("true"), logs=tmp_path / "logs")


def test_a_run_has_a_name_and_ends_without_a_trace(go):
    names = []
    assert (
        go(
            Talk().on("w-0 | up", lambda: names.append(runs.runs()) or patch({"suspend": True})()).on("Paused", delete),
            job("echo up; sleep 600"),
        )
        == 1
    )
    assert names == [["j"]]
    assert runs.runs() == []
    assert list(runs.directory().iterdir()) == []
