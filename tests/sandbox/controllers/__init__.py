"""The controllers of the playground."""
