"""Places a backlog of pods at once, where they contend for nodes: `stage` is where to begin."""
