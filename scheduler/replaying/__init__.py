"""Replays recordings (docs/replay.md).

- `driving`: reads a recording and has it followed, run by run.
- `following`: takes every recorded step again and compares each decision: equal, bit by bit, with
  the same configuration and version.
- `simulating`: lets a configuration decide for itself all along: what becomes of the pods.
- `claims`: which devices claims hold in a run that decides for itself.
- `pods`: objects of a recording as they come and go, and the versions of pods that steps name.
- `virtual_time`: an event loop whose time is that of a recording.
"""
