"""DefaultPreemption: evict pods of lower priority for a pod that fits nowhere. See ``plugin``."""
