"""The in-tree plugins; ``IN_TREE`` in `table` lists them all.

- `table`: all in-tree plugins, by name.
- `names`: plugin names, as configuration and verdicts spell them.
- `enqueueing`: PrioritySort and SchedulingGates: the order of the queue, and pods that are gated.
- `node_identity`: NodeName and NodeUnschedulable: the node that a pod names, and cordoned nodes.
- `node_identity_facts`: the node that a pod names, and that a node is cordoned.
- `taint_toleration`: TaintToleration: no pods on nodes with taints that they do not tolerate.
- `taint_toleration_facts`: which taint, and the toleration nearest to it.
- `node_affinity`: NodeAffinity: nodeSelector, required and preferred node affinity.
- `node_affinity_facts`: which requirement fails, and how many nodes meet it.
- `node_ports`: NodePorts: a host port belongs to one pod per node and address.
- `node_ports_facts`: which port, and the pod that has it.
- `node_resources_fit`: NodeResourcesFit: what a pod requests is free, and how full the node would
  be.
- `node_resources_fit_facts`: how much is asked, how much is free, where.
- `balanced_allocation`: NodeResourcesBalancedAllocation: prefer nodes whose resources would be used
  evenly.
- `image_locality`: ImageLocality: prefers nodes that have the pod's images.
- `node_declared_features`: NodeDeclaredFeatures: what a pod asks for that not every kubelet can do.
- `node_declared_features_facts`: which feature is not declared.
- `node_conditions`: NodeConditions: no pods on nodes with bad conditions.
- `node_conditions_facts`: which condition.
- `service_affinity`: ServiceAffinity: pods of a service stay together, on nodes with the same
  values of some labels.
- `service_affinity_facts`: the labels that the service's pods have.
- `topology_spread`: PodTopologySpread: pods of one kind are kept evenly spread over zones, racks,
  nodes.
- `topology_spread_facts`: the constraint, the skew, the domains.
- `topology_spread_domains`: the topology domains that a spread constraint speaks of, and the pods
  in them.
- `inter_pod_affinity`: InterPodAffinity: pods that want to be near others, or away from them.
- `inter_pod_affinity_facts`: which term, and the pods that match it.
- `inter_pod_affinity_hints`: which events may cure a pod that inter-pod affinity keeps waiting.
- `volume_binding`: VolumeBinding: filters nodes where a pod's claims cannot be satisfied, and binds
  the claims.
- `volume_binding_facts`: which claim, which volume, and where that is.
- `volume_restrictions`: VolumeRestrictions: some disks and claims belong to one pod at a time.
- `volume_restrictions_facts`: which claim or disk, and who uses it.
- `volume_zone`: VolumeZone: a volume with zone or region labels is only good for nodes with the
  same.
- `volume_zone_facts`: where the volume is, and where the node.
- `node_volume_limits`: NodeVolumeLimits: a node can attach only so many volumes of a CSI driver.
- `node_volume_limits_facts`: how many volumes of a driver are attached.
- `preemption`: DefaultPreemption: evicts pods of lower priority for a pod that fits nowhere.
- `default_binder`: DefaultBinder: creates the Binding.
- `allocation`: scores from how much of a node's resources would be taken.
- `inter_pod_affinity_worth`: what rows are worth to preferences by host name, kept between pods.
- `waiting_requests`: what all waiting pods request, as a table, for the hint of NodeResourcesFit.
- `default_selector`: which pods belong together with a pod, by its services and its controller.
- `volumes`: what the volume plugins share, and how VolumeBinding finds and binds volumes.
"""
