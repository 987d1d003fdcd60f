"""What the volume plugins share, and how VolumeBinding finds and binds volumes.

- `matching`: on which nodes a pod's claims can be satisfied: by bound, available or provisioned
  volumes.
- `dealing`: free volumes of a storage class, dealt to the claims of one pod on all rows at once.
- `catalog`: available volumes, and capacity for new ones.
- `binder`: carries out the plan for a pod's claims: assume, write, wait for the PV controller, or
  undo.
- `hints`: queueing hints of the volume plugins: which pods an event of storage or of a node may
  help.
- `versions`: version numbers of objects, for the keys of cached verdicts that depend on a few of
  them.
- `claim_facts`: facts about a pod's claims that no node can cure: missing, lost, not bound in time.
- `words`: reasons that several volume plugins use, in kube-scheduler's words.
"""
