"""Each benchmark of the core runs at a small scale."""
