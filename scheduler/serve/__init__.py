"""The HTTP face of the scheduler: health, metrics, configuration and answers to people."""
