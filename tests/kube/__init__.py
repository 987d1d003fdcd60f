"""Tests of the edge to the API server."""
