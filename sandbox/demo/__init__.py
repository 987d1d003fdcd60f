"""The demo: an embedded cluster, a workload, the scheduler, and a screen to watch them on."""
