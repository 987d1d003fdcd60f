"""Which class a pod is in.

A class is made of the keys of all plugins of a profile: what each of them reads of a pod. Labels,
claims and the like enter a key only as what they lead to, such as the selectors that match them,
so pods whose labels differ only where no selector looks are of one class.

Most pods come from a template, and looking at all plugins' keys for each of them would be a waste.
So the controller and its revision lead to the class, without a look at all that a pod says. A pod
is then compared with the first of its revision. If they differ (a webhook that changes some pods,
an edited label, an index in a label), the encoded spec leads to the class, for all further pods of
that revision. Both hold as long as nothing has changed that keys are derived from.

Pods of which each has a claim of its own have a template in common all the same: it leaves out what
claims are called. The keys that claims may enter are made for each of these pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import xxhash

from scheduler.equivalence.class_results import ClassResults
from scheduler.equivalence.reads import Declaration, Key, Reads
from scheduler.equivalence.verdicts import AnswerColumn
from scheduler.model.meta import OwnerReference
from scheduler.model.packed import as_text
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import ClaimVolume, PodSpec, Volume
from scheduler.model.resources import reports_sizes
from scheduler.slices import checkpoint
from scheduler.state.aspects import Aspect, ChangeLog

FILTER, SCORE = "filter", "score"
_POINTS = (FILTER, SCORE)

FORGOTTEN = -1
"""Marks a class that a template may still refer to."""

Chosen = tuple[Declaration, Key]
"""A plugin and its key for a class."""


class ClassVerdict(NamedTuple):
    """That no pod of a class fits on any row: true for one version of the state."""

    diagnosis: Any
    version: int
    """Of the change log, when the diagnosis was made."""
    generation: int
    """Of the codes that are in it."""


class PodClass:
    """Pods that are equal to every plugin of a profile, at one priority."""

    def __init__(
        self, profile: str, identity: tuple[Any, ...], declared: Mapping[str, Sequence[Chosen]]
    ) -> None:
        self.profile = profile
        self.identity = identity
        self.plugins = {
            point: [(each, key) for each, key in declared[point] if key is not None]
            for point in _POINTS
        }
        self.silent = {
            point: frozenset(each.plugin for each, key in declared[point] if key is None)
            for point in _POINTS
        }
        """The plugins that have nothing to say about such pods, by point."""
        self.kept_scores = frozenset(each.plugin for each, _ in self.plugins[SCORE] if each.kept)
        self.live_scores = len(self.kept_scores) < len(self.plugins[SCORE])
        """Whether some scores are not kept."""
        self.not_live = self.silent[SCORE] | self.kept_scores
        """The plugins that are not asked for scores: they say nothing, or theirs are kept."""
        self.known = all(each.reads is not None for each, _ in self.plugins[FILTER])
        """Whether all filters say what they read, so that a verdict on the class can be kept."""
        self.own = any(each.reads and each.reads.own for each, _ in self.plugins[FILTER])
        """Whether pods of one template may be of different classes, now or later."""
        self.results: ClassResults | None = None
        self.columns: dict[tuple[str, str], AnswerColumn] = {}
        """Kept answers by point and plugin."""
        self.verdict: ClassVerdict | None = None
        self.counted = -1
        """`PodIndex.drops` when the pods were counted that its pods ask about."""
        self.pods = 0
        """How many pods were looked at, each time counted."""
        self.text = 0
        """The length of its first pod's encoding."""
        self.used = 0
        """When a pod was last looked at, in looks of `Classes.forget_idle`."""

    @cached_property
    def hash(self) -> int:
        """``equivalenceHash``: a name for people, not the identity, since hashes can be forged."""
        return xxhash.xxh64_intdigest(_canonical(self.identity))

    @property
    def reads(self) -> Reads:
        """What the kept answers of the class depend on."""
        kept = [each.reads for point in _POINTS for each, _ in self.plugins[point] if each.kept]
        found = [reads for reads in kept if reads is not None]
        return Reads(
            rows=frozenset().union(*(reads.rows for reads in found)),
            cluster=frozenset().union(*(reads.cluster for reads in found)),
        )


Revision = tuple[str, str | None, str | None]
"""The uid of a controller, and what it calls the template that it made a pod from."""
_REVISION_LABELS = ("pod-template-hash", "controller-revision-hash")
"""Of ReplicaSets, and of StatefulSets and DaemonSets; a Job has one template."""


class _EqualPods:
    """Pods that differ in nothing but their names, and those of their claims."""

    __slots__ = (
        *("claims", "controller", "exemplar", "keys", "mixed", "named", "own", "places"),
        *("pod_class", "positions", "revision", "text", "used", "volumes"),
    )

    def __init__(
        self, exemplar: PodInfo, controller: OwnerReference | None, text: int, *, claims: bool
    ) -> None:
        self.exemplar = exemplar
        self.text = text
        """The length of its encoding."""
        self.controller = controller
        self.volumes = _distinctive(exemplar.pod.spec.volumes)
        self.named = any(volume.ephemeral is not None for volume in self.volumes)
        """Whether its claims are those of one pod."""
        self.revision: Revision | None = None
        """The revision whose pods it represents."""
        self.mixed = False
        """Whether a pod of that revision was different."""
        self.claims = claims
        """Whether volumes of its pods are those of claims, which may be others for each pod."""
        self.keys: list[Key] = []
        self.places: tuple[int, ...] = ()
        """The keys that are made for each pod, as long as keys are derived from the same."""
        self.own: Sequence[Key] | None = None
        """These keys of the last pod."""
        self.positions: tuple[int, ...] = ()
        self.pod_class: PodClass | None = None
        self.used = 0

    def describes(self, pod: PodInfo, controller: OwnerReference) -> bool:
        """Whether a pod has the same encoding; cheaper than making one."""
        mine, theirs = pod.pod, self.exemplar.pod
        spec, known = mine.spec, theirs.spec
        if self.named:
            return False
        if spec.volumes != known.volumes:
            if _distinctive(spec.volumes) != self.volumes:
                return False
            spec = msgspec.structs.replace(spec, volumes=known.volumes)
        return (
            spec == known
            and mine.metadata.labels == theirs.metadata.labels
            and mine.metadata.namespace == theirs.metadata.namespace
            and controller == self.controller
        )


_DERIVED = 16
_OVERHEAD = 6 * 1024
"""What is kept for a template, and what for a class, takes at most so many times the length of its
encoding, and so many bytes besides; measured, with the keys and compiled selectors in it."""


class ClassUsage(NamedTuple):
    """How much is kept for one profile."""

    templates: int
    template_bytes: int
    classes: int
    class_bytes: int


class Classes:
    """The classes of one profile."""

    TEMPLATES = 16_384
    TEXT = 4 * 1024 * 1024
    """Of templates and of classes, how long their encodings may be together: no author of pods may
    grow what is derived from them."""

    def __init__(
        self,
        profile: str,
        declared: Mapping[str, Sequence[Declaration]],
        changes: ChangeLog,
        *,
        by_controller: bool = False,
    ) -> None:
        self.profile = profile
        self._declared = [(point, each) for point in _POINTS for each in declared[point]]
        self._changes = changes
        self._by_controller = by_controller
        self._templates: dict[bytes, _EqualPods] = {}
        self._revisions: dict[Revision, _EqualPods] = {}
        """The template of each revision; an entry is dropped with its template."""
        self.mismatches = 0
        """Revisions of which a pod was different from the first."""
        self._template_text = 0
        self._classes: dict[tuple[Any, ...], PodClass] = {}
        self._class_text = 0
        self.overfull = False
        """Whether there are more classes than may be kept; `drop_oldest` helps."""
        self._looks = 0
        self._keys_of = [each.key for _, each in self._declared]
        self._own = tuple(place for place, (_, each) in enumerate(self._declared) if each.own)
        """The plugins whose keys are made for each pod."""
        self._by_claims = tuple(
            place
            for place, (_, each) in enumerate(self._declared)
            if not each.own and each.reads_claims
        )
        """The plugins whose keys are made for each pod that has claims."""
        reads = [(each, each.reads.keys) for _, each in self._declared if each.reads is not None]
        derived = frozenset().union(*(aspects for _, aspects in reads))
        self._derived_from: tuple[Aspect, ...] = tuple(sorted(derived))
        self._derived = {
            aspect: tuple(
                place
                for place, (_, each) in enumerate(self._declared)
                if each.reads is not None and aspect in each.reads.keys
            )
            for aspect in self._derived_from
        }
        """The keys that are derived from each aspect."""
        mine = (*self._own, *self._by_claims)
        shared = [
            aspect for aspect, places in self._derived.items() if set(places).difference(mine)
        ]
        self._own_from = frozenset().union(*(aspects for each, aspects in reads if each.own))
        self._versions_of = _picker(self._derived_from)
        self._shared_from = tuple(
            aspect for aspect in self._derived_from if aspect in self._own_from or aspect in shared
        )
        """The aspects that matter to what pods with claims of their own have in common."""
        self._shared_versions_of = _picker(self._shared_from)

    def __len__(self) -> int:
        return len(self._classes)

    def __iter__(self) -> Iterator[PodClass]:
        return iter(list(self._classes.values()))

    def usage(self) -> ClassUsage:
        """How much is kept."""
        return ClassUsage(
            len(self._templates),
            _OVERHEAD * len(self._templates) + _DERIVED * self._template_text,
            len(self._classes),
            _OVERHEAD * len(self._classes) + _DERIVED * self._class_text,
        )

    def of(self, pod: PodInfo) -> PodClass | None:
        """The class of a pod that waits; None if it is in none, and must be looked at alone.

        What has been derived from an equal spec is shared with the pod. Sizes that a kubelet has
        reported are not in the spec, and a pod that waits has none.
        """
        assert not self._changes.on_trial, "what holds on trial must not be remembered"
        controller = pod.pod.metadata.controller
        if (self._by_controller and controller is None) or reports_sizes(pod.pod):
            return None
        template = self._template(pod, controller)
        positions = self._derived_at(template)
        if template.positions != positions or not template.keys:
            self._follow(template, pod, positions)
        own = [self._keys_of[place](pod) for place in template.places]
        pod_class = template.pod_class
        if pod_class is None or pod_class.used == FORGOTTEN or own != template.own:
            template.own = own
            for place, key in zip(template.places, own, strict=True):
                template.keys[place] = key
            uid = controller.uid if self._by_controller and controller else ""
            pod_class = self._intern(pod, template.keys, uid, template.text)
            template.pod_class = pod_class
        pod_class.pods += 1
        template.used = pod_class.used = self._looks
        return pod_class

    def derive_keys(self, pod: PodInfo) -> None:
        """Derive the keys of a long pod, with checkpoints: `of` takes them, if they are true still.

        What changes meanwhile, `of` derives again: it compares with where the log was at first.
        """
        controller = pod.pod.metadata.controller
        if (self._by_controller and controller is None) or reports_sizes(pod.pod):
            return
        template = self._template(pod, controller)
        if template.keys:
            return
        template.exemplar.derive_asked()
        positions, places = self._derived_at(template), self._places(template, pod)
        keys: list[Key] = [None] * len(self._declared)
        for place, derive in enumerate(self._keys_of):
            if place not in self._own and place not in places:
                checkpoint()
                keys[place] = derive(template.exemplar)
        if not template.keys:  # nor did an equal pod come meanwhile
            template.positions, template.places, template.own = positions, places, None
            template.keys, template.pod_class = keys, None

    def _template(self, pod: PodInfo, controller: OwnerReference | None) -> _EqualPods:
        """The pods that this one is equal to, by its revision or else by what it says."""
        if controller is None:
            return self._by_content(pod, None)
        labels = pod.pod.metadata.labels
        template_hash, revision_hash = _REVISION_LABELS
        revision = (controller.uid, labels.get(template_hash), labels.get(revision_hash))
        speaks = self._revisions.get(revision)
        if speaks is None:
            template = self._by_content(pod, controller)
            template.revision = revision
            self._revisions[revision] = template
            return template
        if speaks.mixed:
            return self._by_content(pod, controller)
        if speaks.exemplar is pod:
            return speaks
        if speaks.describes(pod, controller):
            pod.adopt(speaks.exemplar)
            return speaks
        speaks.mixed = True
        self.mismatches += 1
        return self._by_content(pod, controller)

    def _by_content(self, pod: PodInfo, controller: OwnerReference | None) -> _EqualPods:
        # How long the names of claims are counts towards the limits: they matter beyond these.
        claims = bool(pod.pod.spec.volumes and pod.volumes.claims and not pod.excess)
        text = kin_of(pod) if claims else template_of(pod)
        template = self._templates.get(text)
        if template is None:
            return self._new_template(text, pod, controller, claims=claims)
        if claims:
            pod.adopt_but_claims(template.exemplar)
        else:
            pod.adopt(template.exemplar)
        return template

    def stamp(self) -> tuple[int, ...]:
        """Another one as soon as the class of some pod may have become another."""
        return self._versions_of(self._changes.changed_at)

    def _derived_at(self, template: _EqualPods) -> tuple[int, ...]:
        """Another one as soon as keys of a template that its pods have in common may differ."""
        pick = self._shared_versions_of if template.claims else self._versions_of
        return pick(self._changes.changed_at)

    def drop_oldest(self) -> PodClass:
        """Forget the oldest class; it is made anew if one of its pods comes."""
        oldest = self._classes.pop(next(iter(self._classes)))
        self._class_text -= oldest.text
        self._compare_with_limits()
        return oldest

    def forget_idle(self, number: int, looks: int) -> list[PodClass]:
        """Look at so many of the oldest, and forget those without a pod for so many looks.

        The others become the youngest. Returns the classes that were forgotten.
        """
        self._looks += 1
        last = self._looks - looks
        for text, template in list(islice(self._templates.items(), number)):
            if template.used < last:
                self._drop_template(text)
            else:
                self._templates[text] = self._templates.pop(text)
        idle = []
        for identity, pod_class in list(islice(self._classes.items(), number)):
            del self._classes[identity]
            if pod_class.used < last:
                self._class_text -= pod_class.text
                pod_class.used = FORGOTTEN
                idle.append(pod_class)
            else:
                self._classes[identity] = pod_class
        self._compare_with_limits()
        return idle

    def _compare_with_limits(self) -> None:
        number = len(self._classes)
        self.overfull = number > 1 and (number > self.TEMPLATES or self._class_text > self.TEXT)

    def _new_template(
        self, text: bytes, pod: PodInfo, controller: OwnerReference | None, *, claims: bool
    ) -> _EqualPods:
        self._template_text += len(text)
        while self._templates and (
            len(self._templates) >= self.TEMPLATES or self._template_text > self.TEXT
        ):
            self._drop_template(next(iter(self._templates)))
        template = self._templates[text] = _EqualPods(pod, controller, len(text), claims=claims)
        return template

    def _drop_template(self, text: bytes) -> None:
        gone = self._templates.pop(text)
        self._template_text -= len(text)
        if gone.revision is not None:
            self._revisions.pop(gone.revision, None)

    def _follow(self, template: _EqualPods, pod: PodInfo, positions: tuple[int, ...]) -> None:
        """Bring the keys that the pods of a template have in common up to date.

        Those that are derived from nothing that changed are still true.
        """
        first, keys = not template.keys, template.keys or [None] * len(self._declared)
        aspects = self._shared_from if template.claims else self._derived_from
        versions = zip(aspects, template.positions or positions, positions, strict=True)
        changed = [aspect for aspect, old, new in versions if old != new]
        template.positions = positions
        if first or not self._own_from.isdisjoint(changed):
            template.places, template.own = self._places(template, pod), None
        stale = {place for aspect in changed for place in self._derived[aspect]}
        renewed = list(keys)
        for place in range(len(keys)) if first else stale.difference(template.places):
            key = None if place in self._own else self._keys_of[place](template.exemplar)
            renewed[place] = None if place in template.places else key
        if first or renewed != keys:
            template.keys, template.pod_class = renewed, None

    def _places(self, template: _EqualPods, pod: PodInfo) -> tuple[int, ...]:
        """The keys that are made for each pod of a template."""
        own = (self._declared[place][1] for place in self._own)
        concerned = any(each.concerns is None or each.concerns(pod) for each in own)
        by_claims = self._by_claims if template.claims else ()
        return (*self._own, *by_claims) if concerned else by_claims

    def _intern(self, pod: PodInfo, keys: Sequence[Key], controller: str, text: int) -> PodClass:
        policy = pod.pod.spec.preemption_policy
        # What cannot be understood counts as absent, so keys do not tell such pods from valid ones.
        identity = (self.profile, controller, pod.priority, policy, pod.faults, *keys)
        known = self._classes.get(identity)
        if known is None:
            declared: dict[str, list[Chosen]] = {point: [] for point in _POINTS}
            for (point, each), key in zip(self._declared, keys, strict=True):
                declared[point].append((each, key))
            known = self._classes[identity] = PodClass(self.profile, identity, declared)
            known.text = text
            self._class_text += text
            self._compare_with_limits()
        return known


def template_of(pod: PodInfo) -> bytes:
    """All that plugins may read of a pod, encoded; but for what their keys are ``own`` for."""
    metadata, spec = pod.pod.metadata, pod.pod.spec
    name = None
    if spec.volumes:
        volumes = _distinctive(spec.volumes)
        if len(volumes) != len(spec.volumes):
            spec = msgspec.structs.replace(spec, volumes=volumes)
        # Claims of ephemeral volumes are named after their pod, and belong to it.
        if volumes and any(volume.ephemeral is not None for volume in volumes):
            name = pod.key, pod.uid
    if spec.resource_claims:
        spec = _of_any_claims(spec)
    return _encoded((metadata.namespace, metadata.labels, metadata.controller, spec, name))


def kin_of(pod: PodInfo) -> bytes:
    """The same but for the names of volumes' claims, encoded."""
    metadata, spec = pod.pod.metadata, pod.pod.spec
    if spec.resource_claims:
        spec = _of_any_claims(spec)
    volumes = tuple(map(_without_name, _distinctive(spec.volumes)))
    spec = msgspec.structs.replace(spec, volumes=volumes)
    return _encoded((metadata.namespace, metadata.labels, metadata.controller, spec))


def _encoded(parts: tuple[object, ...]) -> bytes:
    """Bytes that only equal parts have."""
    try:
        return _ENCODER.encode(parts)
    except OverflowError:  # a number beyond 64 bits, as manifests may have: JSON begins otherwise
        return msgspec.json.encode(parts, enc_hook=as_text)


def _of_any_claims(spec: PodSpec) -> PodSpec:
    """The spec without the names of its claims for devices; how long they are still counts.

    Pods that name claims differ in these names alone, as those with claims from one template differ
    in their status alone. Who reads either makes a key for each pod.
    """
    claims = tuple(
        msgspec.structs.replace(entry, resource_claim_name="-" * len(entry.resource_claim_name))
        if entry.resource_claim_name
        else entry
        for entry in spec.resource_claims
    )
    return msgspec.structs.replace(spec, resource_claims=claims)


def _without_name(volume: Volume) -> Volume:
    claim = volume.persistent_volume_claim
    if claim is None:
        return volume
    unnamed = _READ_ONLY if claim.read_only else _READ_WRITE
    return msgspec.structs.replace(volume, persistent_volume_claim=unnamed)


def _distinctive(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Without those that have nothing but a name: no plugin reads them.

    Every pod gets one of its own for its service account's token.
    """
    if len(volumes) == 1 and volumes[0] == Volume(name=volumes[0].name):
        return ()  # nearly all pods; a generator takes longer than the comparison
    return tuple(volume for volume in volumes if volume != Volume(name=volume.name))


def _picker(aspects: tuple[Aspect, ...]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """Picks the numbers of aspects, in C where there are enough of them for a tuple."""
    if len(aspects) > 1:
        return itemgetter(*aspects)
    return lambda numbers: tuple(numbers[aspect] for aspect in aspects)


def _canonical(identity: tuple[Any, ...]) -> bytes:
    return _CANONICAL.encode(identity)


_READ_ONLY, _READ_WRITE = ClaimVolume(read_only=True), ClaimVolume()
_ENCODER = msgspec.msgpack.Encoder(enc_hook=as_text)
_CANONICAL = msgspec.msgpack.Encoder(order="deterministic", enc_hook=repr)
