"""The runtime of the scheduling framework: finds, checks and runs the plugins of a profile.

What a plugin may be is in `scheduler.plugin_api`.

- `runtime`: runs a profile's plugins at each extension point, in the configured order; undo in
  reverse.
- `plugin_runner`: calls the plugins of one profile: counts and times the calls, and contains their
  faults.
- `filters`: runs the filter plugins of a profile: all of them, or one for callers that keep
  verdicts.
- `scores`: runs the score plugins of a profile: all of them, or one for callers that keep scores.
- `sorting`: the order of the queue, from the sort plugins of a profile.
- `registry`: plugins by name: an explicit table, merged from explicit tables.
- `discovery`: plugins from outside the tree: Python entry points, and the files of a directory.
- `declarations`: what a plugin declares about itself, read once when it is registered.
- `simple`: plugins that answer for one node at a time, or compare two pods, made to answer in
  columns.
- `faults`: faults and slow answers of plugins: counted each time, reported once a minute.
"""
