"""``make soak``: churn on real processes for long, and whether anything grows meanwhile.

- `churn`: pods, gangs, nodes and services that come and go, all with names and labels of their own.
- `samples`: what the program holds at one moment, from its metrics and from the kernel.
- `trend`: whether a series of samples is flat.
"""
