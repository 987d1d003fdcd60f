"""Place a backlog at once: pods and nodes as a network, placements as its cheapest flow."""
