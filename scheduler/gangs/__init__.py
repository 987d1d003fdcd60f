"""PodGroups, whose pods are bound together or not at all: who belongs to them, and the plugin.

The pass that places a gang is `pipeline/pod_groups`, gangs in a backlog are `pipeline/batch/gangs`;
`operators/podgroups` writes the status of PodGroups.

- `plugin`: Coscheduling: members of a PodGroup are bound together, or not at all.
- `registry`: the registry of all gangs: the members of each, and how far they have come.
- `gang`: one gang: what its PodGroup asks for, how many members there are, and how far they have
  come.
- `status`: the status of PodGroups, from the registry of gangs.
"""
