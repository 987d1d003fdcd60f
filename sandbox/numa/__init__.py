"""Kubelets with NUMA cells: Topology Manager, CPU, memory and device managers, and their NRTs.

Written after the kubelet's behaviour (1.36) and on purpose without anything of ``scheduler.numa``:
it is the judge of what the NUMA plugin decides, so it must not share its mistakes.
"""
