"""The whole cluster in one process, on one event loop with a virtual clock, under seeded faults.

`python -m tests.sim` runs it; `docs/design/simulation.md` says how it works and what it leaves out.

- `loop`: the event loop: time jumps, ready tasks run in a seeded order, no threads, no sockets.
- `hosts`: machines and the processes on them: their clocks and dice; paused, dead.
- `network`: connections in memory, and their faults.
- `replica`: a real `scheduler.app.Daemon` that can be killed, paused and restarted.
- `statuses`: who tells replicas the status of PodGroups, in place of kopf.
- `history`: every request and every write, with time and author.
- `simulation`: all of these together, with the embedded API server.
- `plan`: a history before it happens, as plain data; `drawing`: plans from seeds; `objects`: the
  API objects they stand for.
- `world`: performs a plan: `users`, `ground` (nodes, kubelets, the other scheduler), `volumes`,
  `hooks` (webhook and plugin), `trouble` (faults).
- `invariants`, `rules`, `endings`: what must hold, after each write and at the end; `run`: a plan
  from its beginning to its verdict.
- `judging`: one seed and its verdict, for the processes of `python -m tests.sim`.
- `shrinking`: makes a failing plan small; `planted`: bugs planted on purpose, and what finds them.
"""
