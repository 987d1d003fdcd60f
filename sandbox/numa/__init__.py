"""Kubelets with NUMA cells: Topology Manager, CPU, memory and device managers, and their NRTs.

Written after the kubelet's behaviour (1.36) and on purpose without anything of ``scheduler.numa``:
it is the judge of what the NUMA plugin decides, so it must not share its mistakes.

- `kubelet`: a kubelet as far as cells are concerned: admits pods, keeps what they hold, lists them.
- `settings`: how a kubelet and the agent that publishes its cells are set up.
- `machine`: a machine with NUMA cells: CPUs, memory and devices, and what of them is kept from
  pods.
- `demands`: what of a pod the kubelet's managers look at: exclusive CPUs, pinned memory, devices.
- `topology_manager`: the Topology Manager: merges all managers' hints for a container or a pod, and
  admits it or not.
- `hints`: hints: which cells would do for one resource.
- `cpu_manager`: the CPU manager with its static policy: whole CPUs for containers that ask for
  whole CPUs.
- `cpu_picking`: which CPUs a container gets: whole cells, then whole cores, then single threads,
  packed.
- `memory_manager`: the memory manager with its Static policy: memory of Guaranteed pods comes from
  few cells.
- `device_manager`: the device manager: devices that sit in cells, and some that do not say where
  they sit.
- `publishing`: NodeResourceTopology objects, as an agent on the node makes them from podresources.
- `tasks`: NUMA nodes of the embedded API server: kubelets that may refuse, agents that publish
  NRTs.
"""
