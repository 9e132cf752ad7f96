"""The optional policies: whatever else they say, they refuse nothing."""

from pathlib import Path

import pytest
import yaml

from genericjob.api.names import GROUP, PLURAL, VERSION

MANIFESTS = Path(__file__).parents[2] / "manifests"
FILES = sorted((MANIFESTS / "policies").glob("*.yaml"))


def objects(path, kind):
    return [found for found in yaml.safe_load_all(path.read_text()) if found["kind"] == kind]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_policy_warns_and_never_refuses(path):
    policies = {found["metadata"]["name"]: found["spec"] for found in objects(path, "ValidatingAdmissionPolicy")}
    bindings = objects(path, "ValidatingAdmissionPolicyBinding")
    assert policies
    assert {found["spec"]["policyName"] for found in bindings} == policies.keys()
    assert all(found["spec"]["validationActions"] == ["Warn"] for found in bindings)
    assert all(spec["failurePolicy"] == "Ignore" for spec in policies.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_policy_is_asked_about_jobs_and_not_about_their_status(path):
    for policy in objects(path, "ValidatingAdmissionPolicy"):
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert (rule["apiGroups"], rule["apiVersions"], rule["resources"]) == ([GROUP], [VERSION], [PLURAL])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_warning_begins_with_a_field(path):
    for policy in objects(path, "ValidatingAdmissionPolicy"):
        for told in policy["spec"]["validations"]:
            assert told["message"].startswith(("spec.successRules: ", "spec.failureRules: ", "spec.replicaSpecs: "))
            assert told.get("messageExpression", "").strip("'")[:20] in ("", told["message"][:20])


def test_policies_are_applied_by_who_wants_them():
    assert "policies" not in (MANIFESTS / "kustomization.yaml").read_text()
    assert all(path.read_text().startswith(f"# kubectl apply --filename manifests/policies/{path.name}\n") for path in FILES)
