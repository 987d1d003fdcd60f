"""The only code that talks to an API server: client, watches, writes, events, leader election."""
