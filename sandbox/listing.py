"""Lists: which revision, and which page of it."""

import base64
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from sandbox.errors import ApiFailure, bad_request, expired
from sandbox.resources import Resource
from sandbox.store import Key, Store, Version, encode
from sandbox.watching import Selection

_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results. Continuing with the provided token "
    "results in an inconsistent list - objects that were created, modified, or deleted between "
    "the time the first chunk was returned and now may show up in the list."
)
_INCONSISTENT = -1


class _Token(msgspec.Struct):
    """Where the next page starts, and the revision all pages show."""

    revision: int
    after: Key


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parameters of one list."""

    limit: int = 0
    continue_token: str = ""
    exact_revision: int | None = None


class ListPage(NamedTuple):
    """The objects of one page, and the list's metadata."""

    versions: list[Version]
    metadata: dict[str, Any]


def list_page(
    store: Store, resource: Resource, selection: Selection, options: ListOptions
) -> ListPage:
    """One page; all pages of a list show the revision of the first one."""
    table = store.table(resource.table)
    after: Key | None = None
    revision = options.exact_revision
    if options.continue_token:
        token = _decode(options.continue_token)
        after = token.after
        revision = None if token.revision == _INCONSISTENT else token.revision
    try:
        versions = table.list_at(revision)
    except ApiFailure as error:
        if after is None or error.code != 410:
            raise
        raise expired(_TOO_OLD_TO_CONTINUE, _encode(_Token(_INCONSISTENT, after))) from None
    shown = store.revision if revision is None else revision
    found = [each for each in versions if (after is None or each.key > after) and each in selection]
    page = found[: options.limit] if options.limit else found
    metadata: dict[str, Any] = {"resourceVersion": str(shown)}
    if len(page) < len(found):
        metadata["continue"] = _encode(_Token(shown, page[-1].key))
        if selection.predicate is None:
            metadata["remainingItemCount"] = len(found) - len(page)
    return ListPage(page, metadata)


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
