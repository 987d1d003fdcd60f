"""The command line: thin click commands around the packages below.

- `main`: all commands.
- `run_command`: ``equipoise run``: the daemon, with the flags that kube-scheduler's users know.
- `offline`: objects and configurations from files, as commands take them.
- `simulate_command`: ``equipoise simulate``: where pods go, on objects of files or of a copy of a
  cluster.
- `batch_report`: ``equipoise simulate --batch``: what placing all pods at once would change.
- `config_report`: ``equipoise simulate --compare``: the same pods under two configurations.
- `batch_plot`: ``equipoise simulate --batch --plot``: the network of a small backlog, nodes before
  and after.
- `simulation_plot`: ``equipoise simulate --plot``: nodes before and after, and what still waits.
- `picture`: pictures as SVG text.
- `what_if`: changes to the objects of a simulation: nodes added, nodes drained, workloads scaled.
- `capacity`: ``equipoise simulate --more`` and ``--missing-nodes``: what else fits, and what is
  missing.
- `snapshot_command`: ``equipoise snapshot``: the cluster as a scheduler reads it, in one file.
- `snapshots`: a cluster as a scheduler reads it, in one file, for `-f` of other commands.
- `anonymising`: other names for everything in a snapshot.
- `replay_command`: ``equipoise replay``: decide again what was recorded, and say where that
  differs.
- `replay_report`: what ``equipoise replay`` prints.
- `plays_report`: what becomes of the pods of a recording under two configurations.
- `explain_command`: ``equipoise explain``: why a pod is where it is or waits, and what would let it
  run.
- `explanation`: an explanation as text: what becomes of the pod first, then why, and what would
  help.
- `live_workloads`: the pods of a workload in a cluster, read with the user's kubeconfig.
- `queue_command`: ``equipoise queue`` and ``waiting``: pods that have no node yet, or wait for
  permission.
- `nodes_command`: ``equipoise nodes``: all nodes in a table, or one with its cells, devices and
  pods.
- `decisions_command`: ``equipoise decisions``: what a running scheduler has decided.
- `permit_commands`: ``equipoise approve`` and ``reject``: decide about a pod that waits for
  permission.
- `config_commands`: `equipoise config`: check a configuration file, print what it amounts to, print
  the defaults.
- `fingerprint_command`: ``equipoise fingerprint``: what an agent's pod fingerprint would be, and
  why one differs.
- `demo_command`: ``equipoise demo``: see it work, without a cluster.
- `version_command`: ``equipoise version``: what is installed here, and what runs in the cluster.
- `completion_command`: ``equipoise completion``: scripts with which shells, and kubectl, complete
  what is typed.
- `options`: options that several commands have.
- `manifests`: reads Kubernetes objects from files, directories and standard input, and checks their
  shape.
- `admission`: defaults that an API server would set on objects that come from a file.
- `claim_templates`: ResourceClaims that the controller would make from templates for pods.
- `workloads`: ReplicaSets, pods and claims that controllers would create for workloads.
- `remote`: how commands reach a running scheduler; an error ends the command with its exit code.
- `addresses`: requests to a scheduler at a given address, over HTTP or TLS.
- `clusters`: the cluster of the user's kubeconfig: its objects, and pods behind its API server.
- `targets`: what a command is about: a pod, or a workload and its pods.
- `tables`: tables as lines of text, laid out for the room there is.
- `states`: one colour per state, everywhere.
- `output`: how commands show what they found: tables for people, JSON and YAML for programs.
- `units`: amounts and spans as people write them: 250m, 1.5Gi, 5m12s.
- `exits`: exit codes that scripts rely on, and how commands end with them.
"""
