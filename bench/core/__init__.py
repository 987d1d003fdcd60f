"""The core alone, in one process: what decisions, batches, events and writes cost."""
