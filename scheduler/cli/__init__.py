"""The command line: thin click commands around the packages below.

- `main`: all commands.
- `run_command`: ``equipoise run``: the daemon, with the flags that kube-scheduler's users know.
- `offline`: objects from files, and ``equipoise simulate`` over them.
- `batch_report`: ``equipoise simulate --batch``: what placing all pods at once would change.
- `batch_plot`: ``equipoise simulate --batch --plot``: the network of a small backlog, nodes before
  and after.
- `explain_command`: ``equipoise explain``: the verdict of every node for one pod, from files or a
  live scheduler.
- `live`: ``equipoise queue``, ``nodes`` and ``decisions``: what a running scheduler sees and does.
- `permit_commands`: ``equipoise approve`` and ``reject``: decide about a pod that waits for
  permission.
- `config_commands`: `equipoise config`: check a configuration file, print what it amounts to, print
  the defaults.
- `fingerprint_command`: ``equipoise fingerprint``: what an agent's pod fingerprint would be, and
  why one differs.
- `demo_command`: ``equipoise demo``: see it work, without a cluster.
- `manifests`: reads Kubernetes objects from files, directories and standard input, and checks their
  shape.
- `admission`: defaults that an API server would set on objects that come from a file.
- `workloads`: ReplicaSets, pods and claims that controllers would create for workloads.
- `remote`: requests to a running scheduler over HTTP; an error ends the command with its exit code.
- `pod_names`: how a pod is named on the command line.
- `tables`: tables as lines of text, laid out for the room there is.
- `output`: how commands show what they found: tables for people, JSON and YAML for programs.
- `units`: amounts and spans as people write them: 250m, 1.5Gi, 5m12s.
- `exits`: exit codes that scripts rely on, and how commands end with them.
"""
