"""The demo, a playground: an embedded cluster, a workload, the scheduler, and a screen.

- `session`: runs the demo: the embedded API server, its kubelets and controllers, the workload, and
  the real daemon.
- `settings`: the playground's configuration: its own, or a given one with what every playground
  needs.
- `ports`: fixed ports, so that what a page tells people to type works; the next free ones if taken.
- `kubeconfig`: the playground's kubeconfig: a file of its own, there for as long as the playground.
- `live`: shows a running demo: the live screen with its keys, or lines where there is no terminal.
- `view`: what the live screen shows, as plain values, read from a running demo.
- `interaction`: what keys do to the live screen: pure, from a state and a key to the next state.
- `screen`: the live screen: from a view and the user's choices to exactly so many lines.
- `grid`: rows of cells in columns, laid out for a width; the least important columns go first.
- `terminal`: a terminal that gives keys one by one, and is as before when the block ends.
- `summary`: what became of the demo's pods, in one table and two lines: for ``--once``.
"""
