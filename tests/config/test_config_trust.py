"""Every connection takes the certificates that programs written in Go take."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

import scheduler
from scheduler.config.trust import tls_context

ROOT = Path(scheduler.__file__).parent


@pytest.mark.parametrize("purpose", ssl.Purpose)
def test_certificates_need_no_extensions_that_go_does_not_ask_for(purpose: ssl.Purpose) -> None:
    """Python 3.13, which the image has, asks for them by default."""
    assert not tls_context(purpose).verify_flags & ssl.VERIFY_X509_STRICT


def test_servers_are_verified_by_name() -> None:
    context = tls_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_all_connections_use_this_context() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "create_default_context" in path.read_text(encoding="utf-8")
    }
    assert makers == {"config/trust.py"}
