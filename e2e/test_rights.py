"""The service account of the chart may do the scheduler's work and no more."""

import pytest

from e2e.harness.client import ApiClient
from e2e.harness.scheduler import NAMESPACE, SERVICE_ACCOUNT

BINDING = {"resource": "pods", "subresource": "binding"}
STATUS = {"resource": "pods", "subresource": "status"}
VOLUMES = {"resource": "persistentvolumes"}
DEVICES = {"group": "resource.k8s.io"}
CLAIM_STATUS = {**DEVICES, "resource": "resourceclaims", "subresource": "status"}
SLICES = {**DEVICES, "resource": "resourceslices"}
LEASES = {"namespace": NAMESPACE, "group": "coordination.k8s.io", "resource": "leases"}


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        pytest.param({"verb": "create", **BINDING}, True, id="binds pods"),
        pytest.param({"verb": "patch", **STATUS}, True, id="reports on pods"),
        pytest.param(
            {"verb": "update", "name": "equipoise", **LEASES}, True, id="renews its lease"
        ),
        pytest.param(
            {"verb": "update", "name": "other", **LEASES}, False, id="leaves other leases"
        ),
        pytest.param({"verb": "delete", "resource": "pods"}, True, id="evicts pods"),
        pytest.param({"verb": "create", "resource": "pods"}, False, id="makes no pods"),
        pytest.param({"verb": "patch", **VOLUMES}, True, id="binds volumes"),
        pytest.param({"verb": "delete", **VOLUMES}, False, id="spares volumes"),
        pytest.param({"verb": "patch", **CLAIM_STATUS}, True, id="allocates devices"),
        pytest.param({"verb": "patch", **SLICES}, False, id="publishes no devices"),
        pytest.param({"verb": "patch", "resource": "nodes"}, False, id="changes no nodes"),
        pytest.param({"verb": "list", "resource": "secrets"}, False, id="reads no secrets"),
    ],
)
@pytest.mark.usefixtures("kubeconfig")
async def test_service_account(api: ApiClient, attributes: dict[str, str], allowed: bool) -> None:
    user = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
    review = {"spec": {"user": user, "resourceAttributes": attributes}}

    answer = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)

    assert answer["status"]["allowed"] is allowed
