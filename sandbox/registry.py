"""The verbs of the API on the store: create, update, patch, delete, bind, by the real rules.

No HTTP here and no awaiting: a call either raises `ApiError` or has happened completely.
"""

import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sandbox import (
    binding,
    defaulting,
    deletion,
    eviction,
    field_errors,
    field_managers,
    field_validation,
    scaling,
    server_side_apply,
    updating,
    validation,
)
from sandbox.devices import rules as device_rules
from sandbox.errors import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    unsupported_media_type,
)
from sandbox.field_managers import Managers
from sandbox.patching import JSON, MERGE, STRATEGIC, copied, patcher
from sandbox.resources import Catalog, Resource, defined_by
from sandbox.store import Body, Key, ObjectTable, Store, Version
from sandbox.views import absorb, present, typed

Clock = Callable[[], datetime]

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_MAX_EVENTS = 10_000
_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_IMMORTAL = _SYSTEM_NAMESPACES[:3]
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """A time as `metav1.Time` shows it: whole seconds, UTC."""
    return moment.isoformat("T", "seconds")[:19] + "Z"  # a fifth of the time of `strftime`


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write is meant."""

    dry_run: bool = False
    """Check and answer, but store nothing."""
    manager: str = ""
    """Who writes, for `metadata.managedFields`."""
    tracked: bool = False
    """The manager is named in the request, so that the object's fields are tracked from now on."""
    force: bool = False
    """An apply takes over fields of other managers."""
    field_validation: str = ""
    """What becomes of unknown fields: Ignore, Warn or Strict; empty if they are not looked for."""
    subresource: str = ""
    """The subresource that managed fields name, if it is not the one that is written."""


PLAIN = WriteOptions()
_NAMELESS = "sandbox"
"""The manager of writes within the process."""


class Registry:
    """The objects of one cluster behind the API's verbs. One event loop, no threads."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        validate: bool = True,
        clock: Clock = utc_now,
        rng: random.Random | None = None,
    ) -> None:
        self.store = store or Store()
        self.catalog = Catalog()
        self.clock = clock
        self._validate = validate
        self._rng = rng or random.Random()
        for name in _SYSTEM_NAMESPACES:
            self.create(self.builtin("namespaces"), "", {"metadata": {"name": name}})
        for name, value in _SYSTEM_PRIORITIES.items():
            body = {"metadata": {"name": name}, "value": value}
            self.create(self.builtin("priorityclasses", "scheduling.k8s.io"), "", body)
        # As on a server that has run for a while, the very first revisions are out of reach.
        self.store.compact()

    def builtin(self, plural: str, group: str = "") -> Resource:
        """A built-in resource by name; KeyError if there is none."""
        found = self.catalog.find(group, "v1", plural)
        if found is None:
            raise KeyError(plural)
        return found

    def table(self, resource: Resource) -> ObjectTable:
        """The table behind a resource."""
        return self.store.table(resource.table)

    def get(self, resource: Resource, key: Key) -> Version:
        """The current version, or a 404."""
        found = self.table(resource).get(key)
        if found is None:
            raise not_found(resource.plural, key[1], resource.group)
        return found

    def create(
        self,
        resource: Resource,
        namespace: str,
        shown: Body,
        options: WriteOptions = PLAIN,
        managers: Managers | None = None,
    ) -> Version:
        """Store a new object; the body is taken over and completed in place.

        Without ``managers`` of its fields the writer is their manager, if the options name one.
        """
        metadata = _metadata_of(resource, shown, namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._suffix()
        self._check_namespace(resource, namespace, metadata.get("name", ""))
        now = timestamp(self.clock())
        for field in (
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "managedFields",
        ):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = now
        if resource.counts_generations:
            metadata["generation"] = 1
        body = absorb(resource, typed(resource, shown))
        body["metadata"] = _tidy(metadata)
        defaulting.complete_new(resource, body, now, self._bodies)
        if self._validate:
            validation.check(resource, body)
            self._check_admin_access(resource, None, body)
        if managers is not None or options.tracked:
            body = self._tracked(resource, None, body, "", options, managers)
        key = (namespace, metadata.get("name", ""))
        table = self.table(resource)
        if table.get(key) is not None:
            raise already_exists(resource.plural, key[1], resource.group)
        if options.dry_run:
            return Version(key, body, 0)
        created = table.put(key, body)
        return self._after_create(resource, created)

    def update(
        self,
        resource: Resource,
        key: Key,
        shown: Body,
        subresource: str = "",
        options: WriteOptions = PLAIN,
    ) -> Version:
        """Replace an object (or its status) by a PUT's body; 409 if it has moved on."""
        metadata = _metadata_of(resource, shown, key[0])
        if metadata.setdefault("name", key[1]) != key[1]:
            given = metadata["name"]
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({key[1]})"
            )
        current = self.table(resource).get(key)
        if current is None and resource.create_on_update and not subresource:
            return self.create(resource, key[0], shown, options)
        current = self.get(resource, key)
        uid, actual = metadata.get("uid"), current.body["metadata"]["uid"]
        if uid and uid != actual:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
            raise conflict(resource.plural, key[1], why, resource.group)
        if not subresource:
            defaulting.complete(resource, shown, timestamp(self.clock()))
        return self._write(resource, current, shown, subresource, options)

    def patch(
        self,
        resource: Resource,
        key: Key,
        content_type: str,
        patch: Any,
        subresource: str = "",
        options: WriteOptions = PLAIN,
    ) -> Version:
        """Apply a patch to the current version; conditional only if it names a resourceVersion."""
        if content_type == server_side_apply.CONTENT_TYPE:
            return self._apply(resource, key, patch, subresource, options)
        current = self.get(resource, key)
        patched = _patched(resource, present(resource, current.body), content_type, patch)
        field_validation.check_patched(resource, patched, patch, options.field_validation)
        uid = patched["metadata"].get("uid")
        if uid and uid != current.body["metadata"]["uid"]:
            errors = [field_errors.wrong("metadata.uid", uid, "field is immutable")]
            raise invalid(resource.kind, key[1], errors, resource.group)
        if not subresource:
            # Defaults are filled in in place, and the patched body shares parts with the stored.
            patched = copied(patched)
            defaulting.complete(resource, patched, timestamp(self.clock()))
        return self._write(resource, current, patched, subresource, options)

    def _apply(
        self,
        resource: Resource,
        key: Key,
        configuration: Any,
        subresource: str,
        options: WriteOptions,
    ) -> Version:
        """Server-side apply: create the object, or merge the configuration into it."""
        if not isinstance(configuration, dict):
            raise bad_request("error decoding YAML: the configuration is not an object")
        server_side_apply.check(configuration, resource, key[1])
        named = options.manager if options.tracked else ""
        manager = server_side_apply.manager_of(resource, named, subresource)
        configuration["metadata"].setdefault("name", key[1])
        now = timestamp(self.clock())
        current = self.table(resource).get(key)
        if current is None and not subresource:
            managers = server_side_apply.created(resource, configuration, manager, now)
            return self.create(resource, key[0], configuration, options, managers)
        current = self.get(resource, key)
        live = present(resource, current.body)
        result = server_side_apply.applied(
            resource, live, configuration, manager, now, options.force
        )
        if not subresource:
            defaulting.complete(resource, result.body, now)
        return self._write(resource, current, result.body, subresource, options, result.managers)

    def scale(self, resource: Resource, key: Key) -> Body:
        """The Scale of an object."""
        return scaling.scale_of(resource, self.get(resource, key).body)

    def rescale(
        self, resource: Resource, key: Key, scale: Body, options: WriteOptions = PLAIN
    ) -> Body:
        """Set an object's replicas by a PUT of its Scale."""
        current = self.get(resource, key)
        changed = scaling.scaled(resource, current.body, scale)
        options = replace(options, subresource="scale")
        return scaling.scale_of(resource, self._write(resource, current, changed, "", options).body)

    def patch_scale(
        self,
        resource: Resource,
        key: Key,
        content_type: str,
        patch: Any,
        options: WriteOptions = PLAIN,
    ) -> Body:
        """Set an object's replicas by a patch of its Scale."""
        patched = _patched(resource, self.scale(resource, key), content_type, patch)
        return self.rescale(resource, key, patched, options)

    def evict(self, namespace: str, name: str, shown: Body, options: WriteOptions = PLAIN) -> None:
        """Delete a pod unless its disruption budget forbids it: pods/eviction."""
        pods = self.builtin("pods")
        pod = self.get(pods, (namespace, name))
        delete_options = shown.get("deleteOptions") or {}
        deletion.check_preconditions(pods, pod, delete_options)
        budgets = self.builtin("poddisruptionbudgets", "policy")
        budget = eviction.budget_of(pod.body, self._bodies(budgets.table))
        if budget is not None:
            status = eviction.after_disruption(budget, name, timestamp(self.clock()))
            key = (namespace, budget["metadata"]["name"])
            self.patch(budgets, key, MERGE, {"status": status}, "status", options)
        self.delete(pods, pod.key, delete_options, dry_run=options.dry_run)

    def delete(
        self, resource: Resource, key: Key, options: Body | None = None, *, dry_run: bool = False
    ) -> tuple[Version, bool]:
        """Delete or begin to delete; answers the last version and whether the object is gone."""
        if resource.table == "namespaces" and key[1] in _IMMORTAL:
            raise forbidden("namespaces", key[1], "this namespace may not be deleted")
        current = self.get(resource, key)
        deletion.check_preconditions(resource, current, options or {})
        marked = deletion.marked(resource, current.body, options or {}, self.clock())
        if dry_run:
            return Version(key, marked or current.body, current.revision), marked is None
        if marked is None:
            return self._remove(resource, key), True
        if marked is current.body:
            return current, False
        version = self.table(resource).put(key, marked)
        if resource.table == "namespaces":
            self._empty_namespace(key[1])
        return version, False

    def bind(self, namespace: str, shown: Body) -> None:
        """Assign a pod to a node: pods/binding."""
        binding.target_node(shown)
        pods = self.builtin("pods")
        current = self.get(pods, (namespace, (shown.get("metadata") or {}).get("name", "")))
        binding.check_bindable(current, shown)
        now = timestamp(self.clock())
        self.table(pods).put(current.key, binding.bound(current.body, shown, now))

    def _write(
        self,
        resource: Resource,
        current: Version,
        shown: Body,
        subresource: str,
        options: WriteOptions,
        managers: Managers | None = None,
    ) -> Version:
        given = shown["metadata"].get("resourceVersion")
        if not given and not resource.unconditional_update:
            errors = [
                field_errors.wrong("metadata.resourceVersion", 0, "must be specified for an update")
            ]
            raise invalid(resource.plural, current.key[1], errors, resource.group)
        if given and given != str(current.revision):
            raise conflict(resource.plural, current.key[1], _MODIFIED, resource.group)
        old = current.body
        new = absorb(resource, typed(resource, shown))
        merged = updating.merge_update(resource, old, new, subresource)
        merged["metadata"] = _tidy(merged["metadata"])
        if self._validate:
            updating.check_update(resource, old, merged)
            validation.check(resource, merged)
            self._check_admin_access(resource, old, merged)
        if managers is not None or options.tracked or merged["metadata"].get("managedFields"):
            merged = self._tracked(resource, old, merged, subresource, options, managers)
        if options.dry_run:
            return Version(current.key, merged, current.revision)
        if deletion.completed_by(old, merged):
            return self._remove(resource, current.key)
        # A write that changes nothing is no write: no revision, no event.
        if merged == old:
            return current
        version = self.table(resource).put(current.key, merged)
        if resource.table == _CRDS and not subresource:
            self._serve(version.body)
        return version

    def _tracked(
        self,
        resource: Resource,
        old: Body | None,
        new: Body,
        subresource: str,
        options: WriteOptions,
        managers: Managers | None,
    ) -> Body:
        """The new body with its managed fields: as given, or with this update noted in them."""
        if managers is None:
            managers = field_managers.managers_of(new)
            writer = field_managers.Manager(
                options.manager or _NAMELESS,
                field_managers.UPDATE,
                resource.api_version,
                options.subresource or subresource,
            )
            now = timestamp(self.clock())
            shown = present(resource, old) if old else None
            field_managers.record(resource, shown, present(resource, new), writer, now, managers)
        return field_managers.with_managers(new, managers)

    def _remove(self, resource: Resource, key: Key) -> Version:
        last = self.table(resource).remove(key)
        if resource.table == _CRDS:
            for served in defined_by(last.body):
                self.catalog.withdraw(served.table)
                self.store.drop(served.table)
        if key[0]:
            self._finish_namespace(key[0])
        return last

    # Namespaces

    def _check_admin_access(self, resource: Resource, old: Body | None, new: Body) -> None:
        def namespace(name: str) -> Body | None:
            found = self.store.table("namespaces").get(("", name))
            return found.body if found is not None else None

        if errors := list(device_rules.admin_errors(resource, old, new, namespace)):
            raise invalid(resource.kind, new["metadata"].get("name", ""), errors, resource.group)

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        found = self.store.table("namespaces").get(("", namespace))
        if found is None:
            raise not_found("namespaces", namespace)
        if "deletionTimestamp" in found.body["metadata"]:
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            raise forbidden(resource.plural, name, why, resource.group, [cause])

    def _empty_namespace(self, namespace: str) -> None:
        """What the namespace controller does to a terminating namespace."""
        for resource in {each.table: each for each in self.catalog if each.namespaced}.values():
            for key in [key for key in self.table(resource).current if key[0] == namespace]:
                self.delete(resource, key)
        self._finish_namespace(namespace)

    def _finish_namespace(self, namespace: str) -> None:
        namespaces = self.store.table("namespaces")
        found = namespaces.get(("", namespace))
        if found is None or "deletionTimestamp" not in found.body["metadata"]:
            return
        if not any(
            key[0] == namespace for _, table in self.store.tables() for key in table.current
        ):
            namespaces.remove(("", namespace))

    # What follows a creation

    def _after_create(self, resource: Resource, created: Version) -> Version:
        if resource.table == "namespaces":
            account = {"metadata": {"name": "default"}}
            self.create(self.builtin("serviceaccounts"), created.key[1], account)
        elif resource.table == "events":
            self._forget_old_events()
        elif resource.table == _CRDS:
            self._serve(created.body)
            status = _established(created.body, timestamp(self.clock()))
            return self.table(resource).put(created.key, {**created.body, "status": status})
        return created

    def _serve(self, crd: Body) -> None:
        for resource in defined_by(crd):
            self.catalog.add(resource)
            # Made at once, so that a watch from the CRD's own revision is not too old.
            self.table(resource)

    def _forget_old_events(self) -> None:
        """Keep events bounded: the real server forgets them after an hour."""
        events = self.store.table("events")
        if len(events.current) > _MAX_EVENTS:
            events.remove(next(iter(events.current)))

    def _bodies(self, table: str) -> Iterable[Body]:
        return (version.body for version in self.store.table(table).current.values())

    def _suffix(self) -> str:
        return "".join(self._rng.choices(_NAME_ALPHABET, k=5))


def _metadata_of(resource: Resource, body: Body, namespace: str) -> Body:
    """The request body's own metadata, with the namespace of the request."""
    expected = resource.api_version
    if body.get("apiVersion", expected) != expected:
        raise bad_request(
            f"the API version in the data ({body['apiVersion']}) "
            f"does not match the expected API version ({expected})"
        )
    metadata = body.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata is not an object")
    if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return metadata


def _patched(resource: Resource, shown: Body, content_type: str, patch: Any) -> Body:
    accepted = [JSON, MERGE] if resource.custom else [JSON, MERGE, STRATEGIC]
    accepted.append(server_side_apply.CONTENT_TYPE)
    if content_type not in accepted:
        raise unsupported_media_type(accepted)
    patched = patcher(content_type)(shown, patch)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise bad_request("error decoding patch: the result is not an object")
    return patched


def _tidy(metadata: Body) -> Body:
    """Metadata without empty collections, which the server does not show."""
    return {name: value for name, value in metadata.items() if value not in ({}, [], None)}


def _established(crd: Body, now: str) -> Body:
    conditions = [
        {
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")]
    return {
        "conditions": conditions,
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": stored,
    }
