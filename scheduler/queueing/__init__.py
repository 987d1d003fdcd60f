"""The scheduling queue: which pod is next, and which event may cure a rejected pod.

- `scheduling_queue`: the scheduling queue: which pod is next, and what moves a rejected pod back.
- `queued_pod`: a pod in the queue: its tier, the history of its attempts, and its back-off.
- `queue_tiers`: all waiting pods by tier: active queue, back-off queues, unschedulable pods, gated
  pods.
- `heap`: a priority heap whose items can also be found, moved and removed by key.
- `unschedulable_pods`: unschedulable pods, in cohorts of equal pods, each with a scout that is
  tried first.
- `in_flight`: pods in flight, and the events that happen while they are being scheduled.
- `hints`: which events may cure which plugin's rejections.
- `waiters`: waiters for events: cohorts and gated pods, and which of them an event may have cured.
- `columns`: what plugins keep of the pods that they rejected, to judge an event for all at once.
- `view`: the queue as the serving API, the CLI and metrics show it.
"""
