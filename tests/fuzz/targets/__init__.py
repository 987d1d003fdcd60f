"""All targets, by name: what gets hostile input, and what must hold."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets.answers import Answers
from tests.fuzz.targets.configuration import ConfigFiles
from tests.fuzz.targets.decode import Decode
from tests.fuzz.targets.expressions import Expressions
from tests.fuzz.targets.ingest import Ingest
from tests.fuzz.targets.kubeconfig import Kubeconfigs
from tests.fuzz.targets.manifests import Manifests
from tests.fuzz.targets.pool import Pool
from tests.fuzz.targets.quantities import Quantities
from tests.fuzz.targets.recordings import Recordings
from tests.fuzz.targets.remote_answers import RemoteAnswers
from tests.fuzz.targets.requests import Requests
from tests.fuzz.targets.watch import Watch

TARGETS: dict[str, type[Target]] = {
    each.name: each
    for each in (
        Decode,
        Ingest,
        Watch,
        Answers,
        Pool,
        Requests,
        Manifests,
        ConfigFiles,
        Kubeconfigs,
        RemoteAnswers,
        Recordings,
        Expressions,
        Quantities,
    )
}
