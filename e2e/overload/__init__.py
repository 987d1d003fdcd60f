"""``make overload``: more than a cluster should ask of a scheduler, on the embedded API server.

- `stand`: the API server in this process, the program and a prober in processes of their own.
- `scenes`: what is asked of it, one function each.
"""
