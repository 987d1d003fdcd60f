"""Tests of what is shipped besides the chart: dashboard, alerts, image, bill of materials."""
