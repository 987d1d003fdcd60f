"""The only code that talks to an API server: client, watches, writes, events, leader election.

- `client`: HTTP to one API server: authenticated requests and streams, errors as
  `scheduler.kube.errors`.
- `connections`: connections to one API server: kept ones for requests, and one of its own for each
  stream.
- `http1`: HTTP/1.1 as far as an API server's answers need it: bytes in, answers out.
- `credentials`: where the API server is and who we are, renewed as tokens and certificates rotate.
- `errors`: errors of requests to the API server, as one tree.
- `pacing`: how long to wait: between retries, and for a client-side rate limit.
- `timestamps`: time as Kubernetes writes it: RFC 3339 in UTC with six digits (`metav1.MicroTime`).
- `watch`: a local copy of one resource, kept by list and watch, that reports every change once, in
  order.
- `listing`: lists of a kind from the API server, without our caches.
- `paging`: pages of a list, bounded in bytes for memory and for the event loop.
- `decoding`: from bytes of lists and watches to structs; objects that do not decode are skipped.
- `brackets`: parts of JSON that is nested deeper than a decoder follows, found by their brackets.
- `lenient`: strings that Kubernetes' own components read and a strict decoder refuses.
- `schemas`: Kubernetes' own OpenAPI v3 schemas: which fields an object may have, and of which
  types.
- `fields`: unknown fields, wrong types and impossible values of an object, as the API server would
  report them.
- `formats`: what is wrong with a value of the right type: quantities, bounds of integers, labels.
- `writes`: writes of the scheduling path: bindings and pod status, bounded, retried, and stoppable
  at once.
- `slots`: the order of writes when more wait than may be in flight at once.
- `scopes`: blocks of code that others can end: by a deadline, or because writing has ended.
- `events`: Kubernetes events (events.k8s.io/v1), off the scheduling path.
- `lease`: leader election by a Lease: of all replicas, one writes.
- `fencing`: the fence before writes: nothing is written once another replica may hold the lease.
- `process_deadline`: a deadline of the process that the kernel enforces, also while it is
  suspended.
- `reviews`: authentication and authorization by the API server: TokenReview, SubjectAccessReview.
"""
