"""The story: how a pod gets from a watch event to a binding. Start reading at ``cycle``."""
