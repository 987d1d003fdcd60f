"""Why a pod is where it is, or is nowhere: verdicts, facts, remedies, and the state of the pod.

- `findings`: every verdict and every score for one pod, at one moment.
- `rejections`: every rejection of every node, and the facts on which it rests.
- `remedies`: the smallest changes that would let a pod run, each verified by the real filters.
- `replicas`: how many pods equal to one fit together.
- `comparison`: what tipped the choice between the best node and the next best.
- `pod_progress`: the scheduling state of a pod, and answers with it.
- `wake_events`: which events may have a waiting pod tried again, in words.
- `reasons`: the informative part of a FailedScheduling message, for tables where room is short.
- `pending_pods`: pending pods, some of them, one by one or equal ones together.
- `queries`: what callers of the serving API ask for.
"""
