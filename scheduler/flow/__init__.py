"""Min-cost flow: a backlog and the nodes as a network, placements as its cheapest flow.

- `problem`: a backlog and the nodes it may go to, as matrices: request and response of the solver
  process.
- `contention`: whether a backlog contends: whether first choices exceed what some node takes.
- `scores`: the cost model `Scores`: the profile's verdicts and scores as arcs, resources as what
  flows.
- `cpu_memory`: the cost model `CpuMemory`: the network of the published design.
- `units`: resources as one quantity that flows: units of the dominant share.
- `network`: a flow network in bulk arrays: no object per arc, so a million of them are a few
  operations.
- `solving`: from a problem to its solution: draw the network, solve it, read the placements.
- `solver`: the cheapest flow, by OR-Tools.
- `objective`: the objective by which two placements of one backlog are compared.
- `process`: the solver process from the event loop: started, asked, and ended when it takes too
  long.
- `worker`: the solver's process: ``python -m scheduler.flow.worker`` reads problems and writes
  solutions.
"""
