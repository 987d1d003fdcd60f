"""Files that do not load say why, all of it at once."""

from typing import Any

import pytest

from .support import kube, own, problems_of, profile

CASES = {
    "an unknown field with a near name": (
        profile(plugins={"multiPint": {}}),
        'profiles[0].plugins.multiPint: unknown field (did you mean "multiPoint"?); '
        "its value is {}",
    ),
    "an unknown field unlike any other": (
        kube(leaderElection={"zzz": [1, 2]}),
        "leaderElection.zzz: unknown field (expected one of leaderElect, leaseDuration, "
        "renewDeadline, resourceLock, resourceName, resourceNamespace, retryPeriod); "
        "its value is [1, 2]",
    ),
    "the wrong case": (
        kube(Parallelism=3),
        'Parallelism: unknown field (did you mean "parallelism"?); its value is 3',
    ),
    "a string for an integer": (
        kube(parallelism="many"),
        'parallelism: expected an integer, got "many"',
    ),
    "a boolean for an integer": (
        kube(parallelism=True),
        "parallelism: expected an integer, got true",
    ),
    "an integer beyond 64 bits": (
        kube(parallelism=10**30),
        f"parallelism: {10**30} does not fit 64 bits",
    ),
    "a number for a name": (
        profile(schedulerName=7),
        "profiles[0].schedulerName: expected a string, got 7",
    ),
    "an object for a list": (
        kube(profiles={"schedulerName": "x"}),
        'profiles: expected a list, got {"schedulerName": "x"}',
    ),
    "a list for an object": (
        kube(leaderElection=[]),
        "leaderElection: expected an object, got []",
    ),
    "a null in a list": (
        profile(plugins={"score": {"disabled": [None]}}),
        "profiles[0].plugins.score.disabled[0]: expected an object, got null",
    ),
    "a number for a duration": (
        kube(leaderElection={"leaseDuration": 15}),
        'leaderElection.leaseDuration: expected a duration such as "15s", got 15',
    ),
    "no duration": (
        kube(leaderElection={"leaseDuration": "soon"}),
        'leaderElection.leaseDuration: expected a duration such as "15s" or "1m30s", got "soon"',
    ),
    "a number that is none": (
        own(binding={"timeoutSeconds": float("nan")}),
        "binding.timeoutSeconds: expected a finite number, got NaN",
    ),
    "a value outside the choices": (
        own(logging={"format": "jsn"}),
        'logging.format: unknown value "jsn" (did you mean "json"?)',
    ),
    "a long value is shortened": (
        kube(parallelism="x" * 100),
        f'parallelism: expected an integer, got "{"x" * 58}…',
    ),
    "parallelism": (kube(parallelism=0), "parallelism: must be greater than 0, not 0"),
    "a percentage": (
        kube(percentageOfNodesToScore=101),
        "percentageOfNodesToScore: must be between 0 and 100, not 101",
    ),
    "a profile's percentage": (
        profile(percentageOfNodesToScore=-1),
        "profiles[0].percentageOfNodesToScore: must be between 0 and 100, not -1",
    ),
    "the first backoff": (
        kube(podInitialBackoffSeconds=0),
        "podInitialBackoffSeconds: must be greater than 0, not 0",
    ),
    "the longest backoff": (
        kube(podInitialBackoffSeconds=5, podMaxBackoffSeconds=4),
        "podMaxBackoffSeconds: must not be less than podInitialBackoffSeconds (5), not 4",
    ),
    "a lease shorter than its renewal": (
        kube(leaderElection={"leaseDuration": "10s"}),
        "leaderElection.leaseDuration: must be greater than renewDeadline (10s), not 10s",
    ),
    "a renewal shorter than its period": (
        kube(leaderElection={"renewDeadline": "1s"}),
        "leaderElection.renewDeadline: must be greater than retryPeriod (2s), not 1s",
    ),
    "a negative period": (
        kube(leaderElection={"retryPeriod": "-1s"}),
        "leaderElection.retryPeriod: must be greater than 0, not -1s",
    ),
    "a lock of old": (
        kube(leaderElection={"resourceLock": "endpoints"}),
        'leaderElection.resourceLock: must be "leases", not "endpoints"',
    ),
    "a negative burst": (
        kube(clientConnection={"burst": -1}),
        "clientConnection.burst: must not be negative, not -1",
    ),
    "two profiles of one name": (
        kube(profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}]),
        'profiles[1].schedulerName: "a" is already used by profiles[0]',
    ),
    "a profile without a name beside another": (
        kube(profiles=[{"schedulerName": "a"}, {}]),
        "profiles[1].schedulerName: is required when there is more than one profile",
    ),
    "an unknown plugin": (
        profile(plugins={"multiPoint": {"enabled": [{"name": "NodeResourceFit"}]}}),
        'profiles[0].plugins.multiPoint.enabled[0].name: unknown plugin "NodeResourceFit" '
        '(did you mean "NodeResourcesFit"?)',
    ),
    "a plugin without a name": (
        profile(plugins={"score": {"enabled": [{"weight": 1}]}}),
        "profiles[0].plugins.score.enabled[0].name: is required",
    ),
    "nothing to disable": (
        profile(plugins={"score": {"disabled": [{}]}}),
        'profiles[0].plugins.score.disabled[0].name: is required ("*" for all)',
    ),
    "a plugin twice": (
        profile(plugins={"filter": {"enabled": [{"name": "NodeName"}, {"name": "NodeName"}]}}),
        'profiles[0].plugins.filter.enabled[1].name: "NodeName" is enabled twice',
    ),
    "a negative weight": (
        profile(plugins={"score": {"enabled": [{"name": "NodeResourcesFit", "weight": -1}]}}),
        "profiles[0].plugins.score.enabled[0].weight: must be between 0 and 2147483647, not -1",
    ),
    "a plugin where it has no business": (
        profile(plugins={"score": {"enabled": [{"name": "NodeName"}]}}),
        'profiles[0].plugins.score.enabled[0].name: "NodeName" does not implement score, '
        "only filter",
    ),
    "no queue sort": (
        profile(plugins={"queueSort": {"disabled": [{"name": "*"}]}}),
        "profiles[0].plugins.queueSort: at least one plugin must sort the queue",
    ),
    "points of nobody": (
        own(extensionPoints=[{"schedulerName": "equipose"}]),
        "extensionPoints[0].schedulerName: there is no profile of this name (did you mean "
        '"equipoise"?), got "equipose"',
    ),
    "points of one profile twice": (
        own(extensionPoints=[{}, {"schedulerName": "equipoise"}]),
        'extensionPoints[1].schedulerName: "equipoise" is listed twice',
    ),
    "a plugin at a point of ours that it does not have": (
        own(extensionPoints=[{"postScore": {"enabled": [{"name": "NodeName"}]}}]),
        'extensionPoints[0].postScore.enabled[0].name: "NodeName" does not implement postScore, '
        "only filter",
    ),
    "a different queue sort in another profile": (
        kube(
            profiles=[
                {"schedulerName": "a"},
                {
                    "schedulerName": "b",
                    "plugins": {
                        "queueSort": {
                            "disabled": [{"name": "*"}],
                            "enabled": [{"name": "OtherSort"}],
                        }
                    },
                },
            ]
        ),
        "profiles[1].plugins.queueSort: must be the same for all profiles",
    ),
    "nobody binds": (
        profile(plugins={"bind": {"disabled": [{"name": "DefaultBinder"}]}}),
        "profiles[0].plugins.bind: at least one plugin must bind pods",
    ),
    "a port": (
        own(server={"port": 70000}),
        "server.port: must be between 0 and 65535, not 70000",
    ),
    "a certificate without its key": (
        own(server={"tlsCertFile": "tls.crt"}),
        "server.tlsPrivateKeyFile: set both certificate and private key, or neither",
    ),
    "a path that is none": (
        own(server={"alwaysAllowPaths": ["/livez", "metrics"]}),
        'server.alwaysAllowPaths[1]: must begin with "/" and may have a "*" at its end only, '
        'not "metrics"',
    ),
    "a path with a star in its middle": (
        own(server={"alwaysAllowPaths": ["/api/*/queue"]}),
        'server.alwaysAllowPaths[0]: must begin with "/" and may have a "*" at its end only, '
        'not "/api/*/queue"',
    ),
    "no bindings at once": (
        own(binding={"concurrency": 0}),
        "binding.concurrency: must be greater than 0, not 0",
    ),
    "a negative age of recordings": (
        own(recording={"maxAge": "-1h"}),
        "recording.maxAge: must not be negative, not -3600",
    ),
    "no room for a recording": (
        own(recording={"maxBytes": 0}),
        "recording.maxBytes: must be greater than 0, not 0",
    ),
    "a recording of one byte": (
        own(recording={"maxBytes": 1, "segmentBytes": 1}),
        "recording.maxBytes: must be at least 1048576 (1 MiB), not 1",
    ),
    "a recording that is smaller than one of its segments": (
        own(recording={"maxBytes": 2**20}),
        "recording.maxBytes: must not be less than recording.segmentBytes (33554432), not 1048576",
    ),
    "a negative seed": (own(tieBreakSeed=-1), "tieBreakSeed: must not be negative, not -1"),
}


@pytest.mark.parametrize(
    ("document", "problem"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_one_fault_is_one_problem(document: dict[str, Any], problem: str) -> None:
    assert problems_of(document) == [problem]


def test_points_of_one_of_several_profiles_need_its_name() -> None:
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b"}]
    problems = problems_of(kube(profiles=profiles), own(extensionPoints=[{}]))
    message = "is required: there are several profiles"
    assert problems == [f"extensionPoints[0].schedulerName: {message}"]


def test_all_faults_of_both_documents_come_at_once() -> None:
    found = problems_of(
        kube(
            parralelism=8,
            parallelism="many",
            percentageOfNodesToScore=101,
            profiles=[{"plugins": {"score": {"enabled": [{"name": "NodeNam"}, 3]}}}],
        ),
        own(server={"port": -1}, loging={}),
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "parralelism",
        "parallelism",
        "profiles[0].plugins.score.enabled[1]",
        "loging",
        "percentageOfNodesToScore",
        "profiles[0].plugins.score.enabled[0].name",
        "server.port",
    ]
