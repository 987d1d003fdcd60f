"""Metrics, logs, recent decisions, and the health of the runtime.

- `metrics`: every metric the scheduler exports, in one table.
- `instruments`: counters, gauges and histograms that cost little to touch; prometheus_client
  exports them.
- `readings`: metrics whose values other components keep anyway; they are read at each scrape only.
- `logs`: structured logs: a constant message and key-values, as JSON lines or for a person at a
  terminal.
- `repeats`: suppresses messages that repeat, so that logs and events show what is new.
- `decisions`: the latest scheduling decisions, kept in memory for ``/api/v1/decisions``.
- `samples`: throughput, latency and queue of the last half hour, for the page.
- `verdict_history`: how the verdict on each pod changed over its attempts.
- `watchdog`: detects a scheduling loop without progress, and reports its stack.
- `runtime`: the health of the interpreter itself: event-loop lag, garbage collector pauses, frozen
  start-up.
- `allocator`: free memory in the allocator: kept for speed, returned to the kernel when it stays
  unused.
- `arenas`: objects that floods are made of, kept out of the interpreter's arenas.
- `tables`: tables of dictionaries that are far longer than their entries need, made short again.
"""
