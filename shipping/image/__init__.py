"""Builds the content of the container image; the Dockerfile runs the same steps as the tests."""
