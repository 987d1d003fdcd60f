"""The HTTP endpoints: health, metrics, configuration, queue, nodes, decisions, explanations."""
