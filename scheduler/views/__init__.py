"""What the page shows, as plain values: made in the scheduling thread, in slices.

- `overview`: how the scheduler does, and what keeps most pods waiting.
- `updates`: what has happened since a reader last looked, for the stream.
- `node_map`: all nodes as columns, for a heat map by one resource.
- `node_zones`: nodes by name with their zones, kept from one map to the next.
- `node_detail`: one node in full, with its pods and NUMA cells.
- `pod_classes`: classes of equal pods, and how often each plugin's answers were kept.
- `pod_manifest`: a pod as a manifest to start from.
- `pod_groups`: gangs and the last batches.
"""
