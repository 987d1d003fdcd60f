"""Devices and claims to them (resource.k8s.io): the rules of the API server, a driver for a demo.

- `rules`: claims, slices and classes of devices: their defaults, and the rules for each kind.
- `claims`: what a claim may ask for, itself or in a template, and which selectors a class has.
- `claim_status`: the status of a claim, which schedulers write: who uses what, by which rules.
- `slices`: what the real server checks of a ResourceSlice.
- `driver`: a small driver: publishes the boards of nodes that have some, and sets nothing else.
- `names`: names of devices and what they belong to, and shapes of bodies that others wrote.
"""
