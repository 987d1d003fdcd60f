"""Structure-aware fuzzing: see `docs/design/fuzzing.md`."""
