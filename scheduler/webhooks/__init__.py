"""Plugins in other processes: webhooks of our own protocol, and kube-scheduler's extenders.

No step of the scheduler waits for a remote answer. There are three ways to get one::

    preEnqueue, queueSort ──► gate: a background task asks; the pod is gated until the answer
                              is there, then the queue activates it
    preFilter … postScore ──► the attempt ends (`answers.AnswerNeeded`), the pod is suspended,
    preempt                   a task asks; the attempt is repeated with the answer
                              (`suspension`)
    reserve, permit,      ──► awaited in the task that binds the pod, after a node is assumed
    preBind, bind             (`framework/runtime`); members of a gang wait for each other
                              (`pipeline/gang_barrier`)

Notices (postBind, unreserve) are sent in the background, and no answer is needed.

- `plugin`: a webhook as a plugin.
- `extender`: an extender of kube-scheduler as a plugin, with kube-scheduler's behaviour.
- `building`: makes the webhooks and extenders of a configuration, and adds them to profiles.
- `gate`: a webhook at PreEnqueue and QueueSort: whether a pod may be queued, and its sort key.
- `answers`: answers of remote plugins, needed in the middle of an attempt.
- `suspension`: pods whose attempt waits for an answer; other pods are scheduled meanwhile.
- `rows`: answers about rows: what filters and scores of webhooks and extenders have in common.
- `asking`: one webhook of our own protocol: its calls, as coroutines that never raise.
- `caller`: calls of one webhook: bounded and shared by namespace, repeated where that is safe,
  counted.
- `recorded`: answers of webhooks and extenders from a recording, in place of calls.
- `transport`: one HTTP exchange with a webhook: bytes there, bytes back, everything bounded.
- `protocol`: our own webhook protocol: what is sent to each extension point, and what may come
  back.
- `extender_protocol`: the wire format of kube-scheduler's extenders
  (``k8s.io/kube-scheduler/extender/v1``).
- `views`: what a webhook is shown of pods and nodes.
- `originals`: objects as the API server sent them, for webhooks and extenders, which may read any
  field.
"""
