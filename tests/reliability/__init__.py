"""What faults did to the program, and the bugs that tests found: the data of docs/reliability.md.

- `bugs.yaml`: the bugs, each with what reproduces it. Whoever finds one appends an entry and runs
  ``python -m tests.reliability``, which writes the page.
- `bugs`: reads and checks them.
- `outcomes`: what `make faults` measured (`outcomes.json`), one row for each fault.
- `page`: the page from both.
"""
