"""The HTTP endpoints: health, metrics, configuration, queue, nodes, decisions, explanations.

- `endpoints`: which path answers what: probes, metrics, configuration and the JSON behind the CLI.
- `recent`: answers of the last second: many who ask the same share one answer.
- `openapi`: the table of all operations, and the OpenAPI document that is made from it.
- `answers`: the shapes of the answers, for that document.
- `view_answers`: the same for what the page shows.
- `stream`: decisions and samples as they come, for many readers.
- `parameters`: what requests ask for: parameters and bodies, checked.
- `page`: the web page: static files, read once at the start and answered from memory.
- `health`: named health checks, and the text in which Kubernetes components report them.
- `guards`: what surrounds every handler: errors as JSON, and a few headers.
- `access`: authentication and authorization of callers by the API server, as kube-scheduler does
  it.
- `server`: the listening socket under the endpoints: plain HTTP or TLS, started and stopped in
  order.
- `connections`: connections to the serving port: bounded in number and in time, and probes always
  get through.
- `certificates`: the certificate that is shown to callers: from files, which may be rotated, or
  self-signed.
- `self_signed`: makes a self-signed certificate; ``python -m scheduler.serve.self_signed NAME…``.
"""
