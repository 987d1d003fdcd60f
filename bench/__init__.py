"""Measurements: run by hand or by ``make``, never by the tests."""
