"""Tests of `scheduler.devices`."""
