"""What the scheduler tells about itself: metrics, logs, recent decisions, runtime health."""
