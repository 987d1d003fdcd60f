"""Recordings: what the daemon saw and decided, in bounded files (docs/replay.md).

- `tape`: is told of each step of the scheduler, and hands entries over to be written.
- `blocks`: encodes entries, many at a time.
- `segments`: compresses and writes them, in a thread of its own.
- `entries`: the format.
- `reader`: reads segments in order, as far as they are whole.
- `trimming`: what of an object is written to files.
- `compression`: zstd, from wherever this Python has it.
"""
