"""Which cluster, and as whom: kubectl and `genericjob` list jobs in the same surroundings, and servers see the same.

That is the server, the proxy on the way, the namespace, the credentials and the user to impersonate.
"""

import os

import pytest
import yaml

from cluster import build
from cluster.layout import run_certs
from e2e.identities import CASES, NOTHING, POD, SECRET
from harness.secluded import SERVICE_ADDRESS, Secluded, impossible


@pytest.fixture(scope="module")
def programs():
    found = build.published()
    assert found, "the programs of the control plane are not built: run `python3 hack/cluster build`"
    return found


@pytest.fixture(scope="module")
def pki(programs, tmp_path_factory):
    made = tmp_path_factory.mktemp("pki")
    run_certs(programs / "certs", "plane", "--dir", str(made), "--service-ip", SERVICE_ADDRESS)
    return made


@pytest.fixture(scope="module")
def place(pki):
    if why := impossible():
        pytest.skip(why)
    with Secluded(pki) as place:
        yield place


def seen(requests):
    """What servers saw, in the words of the table. Requests of one command are all of the same user and go the same way."""
    ways = set()
    for each in requests:
        who = [f"by {each['proxy']}" if each["proxy"] else "", each["authorization"]]
        who += [f"certificate {each['certificate']}" if each["certificate"] else ""]
        who += [line.removeprefix("impersonate-") for line in each["impersonation"]]
        ways.add((each["server"], " ".join(filter(None, who))))
    if not ways:
        return NOTHING
    [(server, who)] = ways
    [namespace] = [each["path"].split("/")[-2] for each in requests if each["path"].endswith("/genericjobs")]
    return f"{server}/{namespace}{f' {who}' if who else ''}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_genericjob_asks_the_same_server_as_the_same_user_as_kubectl(case, place, programs, pki, tmp_path):
    (tmp_path / "pki").symlink_to(pki)
    for name, content in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True)
        path.write_text(text.replace("HERE", str(tmp_path)).replace("PKIDIR", "pki").replace("PKI", str(pki)))
        path.chmod(0o755)
    (tmp_path / "home").mkdir(exist_ok=True)
    given = {name: value.replace("HERE", str(tmp_path)) for name, value in case.environment.items()}
    home = str(tmp_path / "home")
    environment = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": home, "KUBECACHEDIR": f"{home}/cache", "TERM": "dumb"}
    environment |= given | (POD if case.pod else {})
    args = [word.replace("HERE", str(tmp_path)) for word in case.args]

    theirs = place.run(str(programs / "kubectl"), ["get", "genericjobs", *args], environment, pod=case.pod)
    assert seen(theirs["requests"]) == case.expect, theirs["err"]
    ours = place.run("genericjob", ["get", *args], environment, pod=case.pod)
    wanted = case.expect if case.ours is None else case.ours
    assert seen(ours["requests"]) == wanted, ours["err"]
    assert SECRET not in ours["out"] + ours["err"]
    assert (ours["code"] == 0) == (wanted != NOTHING)
    if wanted == NOTHING:
        assert "bug" not in ours["err"]
