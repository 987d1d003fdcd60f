"""Faults on real processes: ``make faults``, and the quick ones as a test.

- `wire`: a TCP proxy in front of the API server that cuts, delays, truncates and holds bytes, and
  acts when a named request has reached a named stage.
- `stopped_replica`: the program, with a place between check and write where it stops itself.
- `scene`: etcd, kube-apiserver, two replicas behind a wire each.
- `history`: what happened, from a watch and the audit log alone.
- `catalogue`: the faults, one function each.
- `running`: carries one out, and judges it.
- `fencing`: a leader that is stopped between check and write, many times.
"""
