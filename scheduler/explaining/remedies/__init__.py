"""The smallest changes that would let a pod run, each verified by the real filters on a trial.

- `search`: single changes, then the smallest pairs; each verified, ranked, few.
- `chains`: longer remedies: all that it takes for the nodes that the fewest plugins reject.
- `scene`: the cluster and the pod with some changes, judged by the real filters.
- `costs`: what each kind of change asks: of the pod's author less than of others, evictions most.
- `patches`: objects as plain JSON: changed copies, and the JSON merge patch between two of them.
- `spelling`: names that are spelt nearly alike.
- `requests`: lower requests: which, and to what; ask for a resource by the name that nodes offer.
- `taints`: tolerate taints, take them off, and uncordon.
- `selectors`: correct or drop what a pod requires of nodes.
- `constraints`: relax what a pod requires of other pods: affinity, spread, host ports.
- `occupancy`: make room: wait for pods that go, delete pods, add a node of a shape that there is.
- `room`: a new node where a change of the pod alone makes no room.
- `claims`: claims that are not there: name the one that is, or create it.
- `devices`: ask for less of devices: other names, fewer, without a selector or constraint.
- `device_room`: delete who holds devices, or add a node with devices.
- `gangs`: what would let a whole gang run, where one member alone would fit.
- `workloads`: what a remedy does for all equal pods of a workload together.
- `held`: what keeps a pod from being tried at all: gates, and the name of another scheduler.
"""
