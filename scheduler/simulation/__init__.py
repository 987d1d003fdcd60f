"""A scheduler over a list of objects: no API server, no clock, no side effects.

The same core as the daemon's, fed with Kubernetes objects (dicts as ``kubectl get -o json`` gives
them). `explain` judges one pod, `place` schedules all that wait, in queue order.

- `loading`: from objects as people write them to a scheduler that has seen them.
- `outlet`: binds at once, and does the work of a cluster's controllers.
- `placing`: schedules all pods that wait, until no attempt would change anything.
- `explained`: explains one pod when its turn comes.
- `capacity`: how many more pods like one fit.
"""

from scheduler.simulation.capacity import MOST_PLACED, More, how_many_more
from scheduler.simulation.explained import explain, judge
from scheduler.simulation.loading import (
    Config,
    InputError,
    Object,
    profile_names,
    unheeded,
)
from scheduler.simulation.outlet import PREEMPTED
from scheduler.simulation.placing import Eviction, Placed, eviction_of, place, played

__all__ = [
    "MOST_PLACED",
    "PREEMPTED",
    "Config",
    "Eviction",
    "InputError",
    "More",
    "Object",
    "Placed",
    "eviction_of",
    "explain",
    "how_many_more",
    "judge",
    "place",
    "played",
    "profile_names",
    "unheeded",
]
