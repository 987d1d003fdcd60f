"""The scheduling framework: what a plugin may do, and the runtime that asks it to."""
