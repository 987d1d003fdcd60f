"""Places a backlog of pods at once, where they contend for nodes. Start reading at `stage`.

- `stage`: the batch stage: places a backlog at once where pods contend for nodes.
- `eligibility`: which pods take part in a batch: those whose results are kept in columns for their
  class.
- `problem`: the problem of placing a backlog: columns and class results as the matrices of the
  solver.
- `relations`: how pods of one class keep away from each other, as a network can say it.
- `trial`: both ways of placing a band, tried on the real state, compared, and reverted.
- `verification`: placements that a solver proposes, verified by the filters before they are
  reserved.
- `gangs`: gangs in a backlog: placed whole or not at all.
"""
