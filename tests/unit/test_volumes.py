"""Volumes as directories of this machine, what programs say of their ends, and that nothing of either is left."""

import base64
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from genericjob.local.messages import BYTES, Messages
from genericjob.local.scratch import LIST, Scratch, remove_abandoned
from genericjob.local.sources import CannotStartError, NotYetError, Surroundings
from genericjob.local.volumes import Volumes, variable

from .test_kubelet import Machine, ended, sh, state

CODE = b"\x00\xff"
OBJECTS = {
    ("ConfigMap", "settings"): {"data": {"rate": "0.1", "depth": "3"}, "binaryData": {"code": base64.b64encode(CODE).decode()}},
    ("Secret", "login"): {"data": {"password": base64.b64encode(b"open sesame").decode()}},
}


class Pod:
    """Volumes of a pod with one container, and what was noticed."""

    def __init__(self, scratch, volumes, *mounts, uid="u-1", objects=OBJECTS):
        self.container = {"name": "main", "volumeMounts": list(mounts)}
        self.noticed = []
        spec = {"containers": [self.container], "volumes": list(volumes)}
        around = Surroundings({"uid": uid}, "", "", {}, lambda kind, name: objects.get((kind, name)), spec)
        self.volumes = Volumes(spec, around, scratch, self.noticed.append)

    def prepared(self):
        self.volumes.prepare()
        return self

    def place(self, volume="data"):
        return Path(self.volumes.variables(self.container)[variable(volume)])


@pytest.fixture
def place(tmp_path):
    """Where directories of runs are made."""
    found = tmp_path / "place"
    found.mkdir()
    return found


@pytest.fixture
def scratch(place):
    found = Scratch(place)
    yield found
    found.close()
    assert list(place.iterdir()) == []


def mount(path, name="data", **fields):
    return {"name": name, "mountPath": str(path), **fields}


EMPTY = {"name": "data", "emptyDir": {}}


# ------------------------------------------------------------------------------------------------ where a volume is


def test_an_empty_dir_is_a_directory_in_a_variable_and_at_its_mount_path(scratch, tmp_path):
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "mnt")).prepared()
    (tmp_path / "mnt" / "file").write_text("here")
    assert (pod.place() / "file").read_text() == "here"
    assert pod.noticed == []
    where = pod.place()
    pod.volumes.remove()
    assert not where.exists()
    assert not os.path.lexists(tmp_path / "mnt")


@pytest.mark.parametrize("source", [{"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {"emptyDir": None}, {}])
def test_an_empty_dir_is_one_however_it_is_written(scratch, tmp_path, source):
    assert Pod(scratch, [{"name": "data", **source}], mount(tmp_path / "mnt")).prepared().place().is_dir()


def test_directories_on_the_way_to_a_mount_path_are_made_and_go_again(scratch, tmp_path):
    deep = tmp_path / "a" / "b" / "c"
    pod = Pod(scratch, [EMPTY], mount(deep)).prepared()
    assert deep.is_dir()
    (tmp_path / "a" / "theirs").touch()
    pod.volumes.remove()
    assert os.listdir(tmp_path / "a") == ["theirs"]


def test_a_volume_in_a_volume_lies_in_it(scratch, tmp_path):
    volumes = [EMPTY, {"name": "more", "emptyDir": {}}]
    pod = Pod(scratch, volumes, mount(tmp_path / "mnt" / "more", "more"), mount(tmp_path / "mnt")).prepared()
    (pod.place("more") / "file").touch()
    assert (pod.place() / "more" / "file").exists()


def test_names_of_volumes_become_names_of_variables():
    assert variable("train-data.v2") == "GENERICJOB_VOLUME_TRAIN_DATA_V2"


def test_a_container_is_told_of_its_own_mounts_only(scratch, tmp_path):
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "mnt")).prepared()
    assert pod.volumes.variables({"name": "other"}) == {}


# ------------------------------------------------------------------------------------------------ where a link cannot be


def test_what_exists_is_never_touched(scratch, tmp_path):
    (tmp_path / "mnt").mkdir()
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "mnt")).prepared()
    assert pod.noticed == [f"the mountPath {tmp_path}/mnt exists on this machine: the volume data is in $GENERICJOB_VOLUME_DATA"]
    assert pod.place().is_dir()
    pod.volumes.remove()
    assert (tmp_path / "mnt").is_dir()


def test_a_link_that_somebody_else_put_there_stays(scratch, tmp_path):
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "mnt")).prepared()
    (tmp_path / "mnt").unlink()
    (tmp_path / "mnt").symlink_to(tmp_path)
    pod.volumes.remove()
    assert (tmp_path / "mnt").is_symlink()


def test_only_one_rank_has_the_link_and_the_next_one_after_it(scratch, tmp_path):
    first, second = (Pod(scratch, [EMPTY], mount(tmp_path / "mnt"), uid=uid) for uid in ("u-1", "u-2"))
    assert first.prepared().noticed == []
    words = f"the mountPath {tmp_path}/mnt belongs to another rank: the volume data is in $GENERICJOB_VOLUME_DATA"
    assert second.prepared().noticed == [words]
    assert first.place() != second.place()
    second.volumes.remove()
    assert os.readlink(tmp_path / "mnt") == str(first.place())
    first.volumes.remove()
    assert Pod(scratch, [EMPTY], mount(tmp_path / "mnt"), uid="u-3").prepared().noticed == []


def test_a_mount_path_that_cannot_be_made_is_said(scratch, tmp_path):
    (tmp_path / "file").touch()
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "file" / "mnt")).prepared()
    words = (
        f"the mountPath {tmp_path}/file/mnt cannot be made on this machine (Not a directory): the volume data is in $GENERICJOB_VOLUME_DATA"
    )
    assert pod.noticed == [words]


def test_two_containers_share_a_link(scratch, tmp_path):
    assert Pod(scratch, [EMPTY], mount(tmp_path / "mnt"), mount(tmp_path / "mnt")).prepared().noticed == []


# ------------------------------------------------------------------------------------------------ contents


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_config_maps_and_secrets_become_files(scratch, tmp_path):
    volumes = [
        {"name": "data", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "login", "defaultMode": 0o400}},
    ]
    pod = Pod(scratch, volumes, mount(tmp_path / "mnt"), mount(tmp_path / "keys", "keys")).prepared()
    assert contents(tmp_path / "mnt") == {"rate": b"0.1", "depth": b"3", "code": CODE}
    assert contents(pod.place("keys")) == {"password": b"open sesame"}
    assert stat.S_IMODE((pod.place() / "rate").stat().st_mode) == 0o644
    assert stat.S_IMODE((pod.place("keys") / "password").stat().st_mode) == 0o400


def test_items_say_which_keys_become_which_files(scratch, tmp_path):
    items = [{"key": "rate", "path": "deep/down", "mode": 0o600}]
    place = Pod(scratch, [{"name": "data", "configMap": {"name": "settings", "items": items}}], mount(tmp_path / "mnt")).prepared().place()
    assert os.listdir(place) == ["deep"]
    assert contents(place / "deep") == {"down": b"0.1"}
    assert stat.S_IMODE((place / "deep" / "down").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMap": {"name": "absent"}}, "ConfigMap 'absent' not found"),
        ({"secret": {"secretName": "absent"}}, "Secret 'absent' not found"),
        ({"configMap": {"name": "settings", "items": [{"key": "absent", "path": "x"}]}}, "ConfigMap settings has no key 'absent'"),
    ],
)
def test_what_is_missing_may_still_come_unless_it_is_optional(scratch, tmp_path, source, words):
    pod = Pod(scratch, [EMPTY | {"name": "first"}, {"name": "data", **source}], mount(tmp_path / "mnt"))
    with pytest.raises(NotYetError, match=words):
        pod.prepared()
    ((kind, fields),) = source.items()
    optional = Pod(scratch, [{"name": "data", kind: fields | {"optional": True}}], mount(tmp_path / "mnt")).prepared()
    assert contents(optional.place()) == {}


def test_a_pod_that_waited_gets_its_files_when_they_come_and_those_that_were_there_stay(scratch, tmp_path):
    objects = {("ConfigMap", "first"): {"data": {"a": "1"}}}
    volumes = [{"name": "first", "configMap": {"name": "first"}}, {"name": "data", "configMap": {"name": "settings"}}]
    pod = Pod(scratch, volumes, mount(tmp_path / "mnt"), mount(tmp_path / "first", "first"), objects=objects)
    with pytest.raises(NotYetError):
        pod.prepared()
    objects.update(OBJECTS | {("ConfigMap", "first"): {"data": {"a": "2"}}})
    assert contents(pod.prepared().place())["rate"] == b"0.1"
    assert contents(pod.place("first")) == {"a": b"1"}


def test_a_host_path_is_the_path_itself(scratch, tmp_path):
    (tmp_path / "host").mkdir()
    pod = Pod(scratch, [{"name": "data", "hostPath": {"path": str(tmp_path / "host")}}], mount(tmp_path / "mnt")).prepared()
    assert pod.place() == tmp_path / "host" == (tmp_path / "mnt").resolve()
    pod.volumes.remove()
    assert (tmp_path / "host").exists()
    assert not os.path.lexists(tmp_path / "mnt")


def test_a_host_path_at_its_own_place_needs_no_link_and_one_that_is_not_there_is_said(scratch, tmp_path):
    volumes = [{"name": "data", "hostPath": {"path": str(tmp_path)}}]
    assert Pod(scratch, volumes, mount(tmp_path)).prepared().noticed == []
    volumes = [{"name": "data", "hostPath": {"path": "/no/such/place"}}]
    (words,) = Pod(scratch, volumes).prepared().noticed
    assert words == "the hostPath /no/such/place of the volume data does not exist on this machine"


def test_a_host_path_is_made_if_the_manifest_says_so(scratch, tmp_path):
    path = tmp_path / "a" / "b"
    source = {"name": "data", "hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}
    pod = Pod(scratch, [source], mount(path)).prepared()
    assert (path.is_dir(), path.is_symlink(), pod.noticed) == (True, False, [])
    pod.volumes.remove()
    assert path.is_dir()
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "b"
    pod = Pod(scratch, [{"name": "data", "hostPath": {"path": str(path), "type": "DirectoryOrCreate"}}], mount(path)).prepared()
    assert pod.noticed == [f"the hostPath {path} of the volume data cannot be made on this machine (Not a directory)"]


def test_a_path_in_a_mount_is_one_in_the_own_volume(scratch, tmp_path):
    at = f"{tmp_path}/m"
    mounts = mount(at), mount(f"{at}/more/", "more", subPath="sub"), mount("/far", "absent")
    pod = Pod(scratch, [EMPTY, {"name": "more", "emptyDir": {}}], *mounts).prepared()
    data, more = pod.place(), pod.place("more")
    paths = {at: data, f"{at}/": data, f"{at}/x": data / "x", f"{at}/more": more, f"{at}/more/y": more / "y", f"{at}m": f"{at}m"}
    for path, place in (paths | {"/far": "/far"}).items():
        assert pod.volumes.directory(pod.container, path) == str(place)


def test_a_sub_path_is_a_part_of_the_volume(scratch, tmp_path):
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "mnt", subPath="a/b")).prepared()
    (tmp_path / "mnt" / "file").touch()
    assert (pod.place().name, os.listdir(pod.place())) == ("b", ["file"])


def test_of_several_mounts_of_a_volume_the_variable_names_the_first(scratch, tmp_path):
    pod = Pod(scratch, [EMPTY], mount(tmp_path / "b", subPath="first"), mount(tmp_path / "a", subPath="second")).prepared()
    assert pod.place().name == "first"


def test_a_sub_path_can_be_a_file(scratch, tmp_path):
    source = {"name": "data", "configMap": {"name": "settings"}}
    pod = Pod(scratch, [source], mount(tmp_path / "settings.txt", subPath="rate")).prepared()
    assert (tmp_path / "settings.txt").read_bytes() == b"0.1" == pod.place().read_bytes()


@pytest.mark.parametrize("path", ["../out", "/etc"])
def test_a_sub_path_stays_in_its_volume(scratch, tmp_path, path):
    with pytest.raises(CannotStartError, match="leads out of its volume"):
        Pod(scratch, [EMPTY], mount(tmp_path / "mnt", subPath=path)).prepared()


def test_volumes_of_other_kinds_are_left_out(scratch, tmp_path):
    pod = Pod(scratch, [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}], mount(tmp_path / "mnt")).prepared()
    assert pod.volumes.variables(pod.container) == {}
    assert not (tmp_path / "mnt").exists()


def test_malformed_volumes_say_where(scratch):
    with pytest.raises(CannotStartError, match=r"the pod's volumes cannot be read: .*\$\.volumes\[0\]\.configMap\.name"):
        Pod(scratch, [{"name": "data", "configMap": {"name": 5}}]).prepared()


# ------------------------------------------------------------------------------------------------ the directory of a run


def test_a_run_that_needs_no_directory_makes_none(place):
    scratch = Scratch(place)
    Pod(scratch, []).prepared().volumes.remove()
    scratch.close()
    assert list(place.iterdir()) == []


def test_the_end_of_a_run_removes_what_it_made_outside(place, tmp_path):
    scratch = Scratch(place)
    Pod(scratch, [EMPTY], mount(tmp_path / "a" / "mnt")).prepared()
    scratch.close()
    assert list(place.iterdir()) == []
    assert not (tmp_path / "a").exists()


def test_a_program_that_removes_the_directory_of_the_run_does_no_harm(scratch):
    shutil.rmtree(scratch.path)
    scratch.close()


@pytest.mark.processes
def test_what_a_killed_run_left_is_removed_by_the_next_one(place, tmp_path):
    killed = f"""
import os, signal
from pathlib import Path
from genericjob.local.scratch import Scratch
scratch = Scratch(Path({str(place)!r}))
os.symlink(scratch.path, {str(tmp_path / "mnt")!r})
scratch.list_outside({str(tmp_path / "mnt")!r}, str(scratch.path))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    (left,) = place.iterdir()
    assert (tmp_path / "mnt").is_symlink()
    scratch = Scratch(place)
    assert scratch.path != left
    assert list(place.iterdir()) == [scratch.path]
    assert not (tmp_path / "mnt").is_symlink()
    scratch.close()


def test_the_directory_of_a_run_that_lives_is_left_alone(scratch, place):
    path = scratch.path
    remove_abandoned(place)
    assert list(place.iterdir()) == [path]


def test_directories_that_are_named_alike_are_left_alone(tmp_path):
    ours, empty = tmp_path / "elsewhere", tmp_path / "empty"
    ours.mkdir()
    empty.mkdir()
    (ours / LIST).write_text(f"{empty}\0\n")
    (tmp_path / "genericjob-link").symlink_to(ours)
    (tmp_path / "genericjob-file").touch()
    (tmp_path / "genericjob-backup").mkdir()
    before = sorted(tmp_path.rglob("*"))
    remove_abandoned(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


# ------------------------------------------------------------------------------------------------ last messages


def test_a_message_is_what_the_program_left_in_its_file(scratch):
    messages = Messages("u-1", scratch)
    Path(messages.variables("main")["GENERICJOB_TERMINATION_LOG"]).write_text("out of data\n")
    assert messages.take("main", 0) == "out of data\n"
    assert messages.take("other", 1) == ""


@pytest.mark.parametrize(
    ("policy", "code", "message"), [("FallbackToLogsOnError", 1, "two\n"), ("FallbackToLogsOnError", 0, ""), ("File", 1, "")]
)
def test_a_program_that_fails_without_a_message_is_quoted_if_that_is_wanted(scratch, policy, code, message):
    messages, heard = Messages("u-1", scratch), []
    told = messages.overheard({"name": "main", "terminationMessagePolicy": policy}, heard.append)
    told(b"x" * 3 * BYTES)
    told(b"\ntwo\n")
    assert messages.take("main", code)[-len("two\n") :] == message
    assert len(messages.take("main", code)) <= BYTES
    assert heard[1] == b"\ntwo\n"


# ------------------------------------------------------------------------------------------------ in a pod


@pytest.fixture
def machine():
    found = Machine()
    yield found
    assert found.kubelet.stop()


def test_containers_of_a_pod_meet_in_a_volume_that_goes_with_the_pod(machine, tmp_path):
    mounts = {"volumeMounts": [mount(tmp_path / "mnt")]}
    first = sh("echo from the first > $GENERICJOB_VOLUME_DATA/file; echo $GENERICJOB_VOLUME_DATA", "first", **mounts)
    machine.create("p", sh(f"cat {tmp_path}/mnt/file", **mounts), init=[first], volumes=[EMPTY])
    machine.reaches("Succeeded")
    where, line = machine.lines()
    assert line == "from the first"
    assert not os.path.exists(where)
    assert not os.path.lexists(tmp_path / "mnt")


def test_the_end_of_the_kubelet_is_the_end_of_all_volumes(tmp_path):
    machine = Machine()
    script = "echo $GENERICJOB_VOLUME_DATA; sleep 600"
    machine.create("p", sh(script, volumeMounts=[mount(tmp_path / "mnt")]), volumes=[EMPTY])
    where = Path(machine.line())
    assert (where.is_dir(), (tmp_path / "mnt").is_symlink()) == (True, True)
    assert machine.kubelet.stop()
    assert not any(os.path.lexists(path) for path in (tmp_path / "mnt", where, where.parents[2]))


def test_every_rank_works_in_its_own_volume_although_the_link_is_anothers(machine, tmp_path):
    script = "echo $(POD) > name; until [ -e go ]; do sleep 0.01; done; cat name"
    pod = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    for name in ("p", "q"):
        container = sh(script, workingDir=str(tmp_path / "mnt"), volumeMounts=[mount(tmp_path / "mnt")], env=[pod])
        other = sh("echo up; until [ -s $GENERICJOB_VOLUME_DATA/name ]; do sleep 0.01; done; touch $GENERICJOB_VOLUME_DATA/go", "other")
        machine.create(name, container, other | {"volumeMounts": [mount(tmp_path / "mnt")]}, volumes=[EMPTY])
    for name in ("p", "q"):
        machine.reaches("Succeeded", name)
        assert sorted(machine.lines(name)) == sorted([name, "up"])


def test_what_is_different_here_is_noticed_once(machine, tmp_path):
    (tmp_path / "mnt").mkdir()
    for name in ("p", "q"):
        machine.create(name, sh("true", volumeMounts=[mount(tmp_path / "mnt")]), volumes=[EMPTY])
        machine.reaches("Succeeded", name)
    assert [name for name, _ in machine.noticed] == ["p"]


def test_a_pod_waits_for_the_objects_in_its_volumes_and_says_so(machine):
    machine.create("p", sh("true"), volumes=[{"name": "data", "secret": {"secretName": "absent"}}])
    waiting = machine.waits()
    assert waiting == {"reason": "CreateContainerConfigError", "message": "Secret 'absent' not found"}
    assert "waiting" in state(machine.pod())


def test_a_pod_whose_files_cannot_be_made_fails_and_says_why(machine, monkeypatch):
    monkeypatch.setattr(machine.kubelet._scratch, "_place", Path("/no/such/place"))
    machine.create("p", sh("echo never"))
    found = ended(machine.reaches("Failed"))
    assert (found["exitCode"], found["reason"]) == (128, "StartError")
    assert found["message"].startswith("files of the pod cannot be made: [Errno 2] No such file or directory: '/no/such/place/")


def test_the_last_message_is_reported(machine):
    machine.create("p", sh("echo out of data > $GENERICJOB_TERMINATION_LOG; exit 3"))
    assert ended(machine.reaches("Failed"))["message"] == "out of data\n"
    machine.create("q", sh("echo no luck; exit 3", terminationMessagePolicy="FallbackToLogsOnError"))
    assert ended(machine.reaches("Failed", "q"))["message"] == "no luck\n"
