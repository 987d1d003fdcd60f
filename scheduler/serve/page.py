"""The web page: static files, read once at the start and answered from memory.

The files hold no data of the cluster, so they are open to all who reach the port: a browser has no
token to show when it loads a page. What the page shows comes from the API, which asks for one.
`make page` writes the files; where they are missing, a plain page says so.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from scheduler.serve.guards import HttpNotFound

STATIC = Path(__file__).parent / "static"
"""Where the build writes to."""
OPEN_PATHS = ("/", "/ui", "/ui/*")
"""What is served to everybody."""
INDEX = "index.html"
HASHED = "assets/"
"""Files below have a hash of their content in their name."""

_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
"""Those that the build makes, the smallest first, with the end of their names."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}

_UNBUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Equipoise</title>
<h1>The page was not built</h1>
<p>This scheduler runs from a checkout without the files of its page.
Run <code>make page</code> there and start it again.</p>
<p>The API is at <a href="../openapi/v3">/openapi/v3</a>, and all commands work.</p>
</html>
"""


class StaticFile(NamedTuple):
    """A file in all encodings that the build made of it."""

    content_type: str
    bodies: Mapping[str, bytes]
    """By encoding; ``identity`` is always there."""
    tag: str
    """Changes with the content."""
    hashed: bool
    """Whether its name changes with the content, so that it may be kept for ever."""


Page = Mapping[str, StaticFile]
"""Files by their path below /ui/."""


def read_page(directory: Path = STATIC) -> Page:
    """All files of the built page; one that says how to build it, if there are none. Blocks."""
    made = {suffix for _, suffix in _ENCODINGS}
    paths = (path for path in directory.rglob("*") if path.is_file() and path.suffix not in made)
    files = {path.relative_to(directory).as_posix(): _read(directory, path) for path in paths}
    return files if INDEX in files else {INDEX: _file(INDEX, {"identity": _UNBUILT})}


def _read(directory: Path, path: Path) -> StaticFile:
    bodies = {"identity": path.read_bytes()}
    for encoding, suffix in _ENCODINGS:
        encoded = path.with_name(path.name + suffix)
        if encoded.is_file():
            bodies[encoding] = encoded.read_bytes()
    return _file(path.relative_to(directory).as_posix(), bodies)


def _file(name: str, bodies: Mapping[str, bytes]) -> StaticFile:
    kind = _TYPES.get(Path(name).suffix, "application/octet-stream")
    tag = hashlib.sha256(bodies["identity"]).hexdigest()[:20]
    return StaticFile(kind, bodies, tag, name.startswith(HASHED))


def add_page(app: web.Application, page: Page) -> None:
    """Serve the files below /ui/, and lead there from the root.

    Redirects are relative: behind a proxy the path before them is not known here.
    """
    app.router.add_get("/", _to_page)
    app.router.add_get("/ui", _to_page)
    app.router.add_get("/ui/{file:.*}", functools.partial(_answer, page))


async def _to_page(request: web.Request) -> web.Response:
    return web.Response(status=307, headers={**_HEADERS, "Location": "ui/"})


async def _answer(page: Page, request: web.Request) -> web.Response:
    file = page.get(request.match_info["file"] or INDEX)
    if file is None:
        raise HttpNotFound(f"the page has no file {request.match_info['file'][:200]!r}")
    encoding = _encoding(request.headers.get("Accept-Encoding", ""), file.bodies)
    tag = file.tag if encoding == "identity" else f"{file.tag}-{encoding}"
    headers = {
        **_HEADERS,
        "ETag": f'"{tag}"',
        "Cache-Control": "public, max-age=31536000, immutable" if file.hashed else "no-cache",
    }
    known = request.if_none_match
    if known and any(each.value in (tag, "*") for each in known):
        return web.Response(status=304, headers=headers)
    if encoding != "identity":
        headers["Content-Encoding"] = encoding
    return web.Response(
        body=file.bodies[encoding], headers={**headers, "Content-Type": file.content_type}
    )


def _encoding(accepted: str, bodies: Mapping[str, bytes]) -> str:
    """The smallest encoding that there is and that the caller accepts."""
    named = [part.strip().lower().partition(";") for part in accepted.split(",")]
    refused = {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    wanted = {name.strip() for name, _, weight in named if weight.replace(" ", "") not in refused}
    found = (name for name, _ in _ENCODINGS if name in bodies and name in wanted)
    return next(found, "identity")
