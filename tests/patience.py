"""How long tests wait for what must happen."""

PATIENCE = 300.0
"""Seconds. A deadline is there to end a test that hangs and to say where: a machine that has much
else to do may need many times as long as an idle one."""
