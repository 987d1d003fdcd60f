"""The contract that the embedded API server is held to, checked against the real one."""

import pytest

from e2e.harness.cluster import ControlPlane

pytest.register_assert_rewrite("tests.apicontract")

from tests.apicontract import ApiContract, ApiEndpoint  # noqa: E402  because rewriting comes first


@pytest.fixture(scope="module")
def aged_control_plane(control_plane: ControlPlane) -> ControlPlane:
    """A server that has just started on an older store: the first versions are out of its reach."""
    control_plane.restart_apiserver()
    return control_plane


class TestRealApiServer(ApiContract):
    """kube-apiserver itself keeps what we ask of an API server."""

    @pytest.fixture
    def api(self, aged_control_plane: ControlPlane) -> ApiEndpoint:
        """The real server, reached as the admin."""
        return ApiEndpoint(aged_control_plane.url, aged_control_plane.admin_context, {})
