"""How a pod gets from a watched change to a binding. Start reading at `scheduler`.

- `scheduler`: the scheduler: the way of a pod from the queue to its binding, and back when a step
  fails.
- `evaluation`: the one decision function: what the plugins of a profile say of all nodes for one
  pod.
- `placement`: from an evaluation to a node: the highest total that no plugin vetoes, or why there
  is none.
- `rehearsal`: ask plugins about a large pod before its attempt, one at a time.
- `attempt`: one attempt at one pod, from pop to the end of binding, and how its reservation is
  reverted.
- `pod_groups`: the pass over a pod group: all members are placed at once, or none is.
- `gang_barrier`: a barrier for the members of a gang that plugins out of process have to permit.
- `batch`: a backlog at once, where pods contend for nodes.
- `binding`: the binding cycle: one task per pod waits for permission, runs PreBind and Bind, and
  reports.
- `open_bindings`: bindings under way, by namespace, and which namespaces are slow.
- `confirmation`: bindings that were answered and not yet confirmed: each is read back after a
  while.
- `headroom`: room that nodes keep for a while for pods of other schedulers.
- `refusals`: pods of ours that a kubelet refused after they were bound: counted, logged, and kept.
- `failure`: when a pod is not placed: requeue it, and report why in an event and in its status.
- `nomination`: nominations of waiting pods: kept in step with the pods' status; their end wakes
  other pods.
- `event_handlers`: from watched changes to the state, and from its events to all that listen: one
  ordered table.
- `permits`: pods that hold a node and wait at Permit, and decisions about them by people.
- `plugin_handle`: the facets of the handle that plugins get.
- `background`: work that plugins start and no attempt waits for, such as the eviction of victims.
"""
