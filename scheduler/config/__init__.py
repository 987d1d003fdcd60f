"""Configuration in pure steps: read a document, decode it by its schema, default it, validate it.

`loading` is the way in; everything it returns is frozen.

- `loading`: from a file to a `Configuration`: read, decode, default, validate; all problems in one
  go.
- `documents`: YAML and JSON text to documents, and which document is which.
- `codec`: documents to structs and back, driven by the structs' own annotations.
- `schema`: the schema of a configuration file, as structs.
- `plugins`: which plugins run at which extension point, in which order and with which weight.
- `plugin_args`: arguments of the plugins that take any, under the names kube-scheduler gives them.
- `webhooks`: webhooks as plugins of a configuration: their names and points, and what they may
  read.
- `extenders`: kube-scheduler's extenders, as it reads them: their names, their order and how to
  call them.
- `pem`: certificates and keys as PEM text.
- `trust`: which certificates connections take.
- `durations`: durations as Kubernetes configuration writes them: "15s", "1m30s", "500ms".
- `defaults`: defaults that depend on other fields or on the environment.
- `validation`: validation of a decoded configuration.
- `args_validation`: validation of plugin arguments: kube-scheduler's own rules, one function per
  plugin.
- `remote_validation`: validation of webhooks and extenders.
- `cautions`: warnings: what a valid configuration says without effect, or at a risk.
- `problems`: problems of a configuration: path, message, and the nearest valid name.
"""
