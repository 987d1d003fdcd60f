"""Dynamic resource allocation: pods get devices with their node.

- `names`: names of the API.
- `messages`: the texts of verdicts.
- `pod_claims`: the claims of a pod, and whether it can use them.
- `extended_resources`: resources that a DeviceClass serves, and the claim that they become.
- `ledger`: all claims, slices and classes; what is allocated, written or only reserved.
- `conditions`: whether drivers have made devices ready.
- `pod_devices`: what a pod needs, as PreFilter finds it, and the key of kept verdicts.
- `judging`: verdicts on rows: one search for all nodes with equal devices.
- `binding`: writes claims before the pod is bound, waits for their devices, and undoes that.
- `deallocation`: what PostFilter takes back.
- `hints`: which events may cure a pod.
- `device_facts`: what a rejection rests on, for explanations.
- `device_view`: the devices of a node for people: reserved, and reported by claims.
- `shown`: allocations and writes in plain values.
- `offline`: what an API server and drivers do with claims, for simulations.
- `plugin`: DynamicResources.
"""
