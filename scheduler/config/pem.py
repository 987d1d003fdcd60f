"""Certificates and keys as PEM text."""

import base64


def plain(text: str) -> str:
    """PEM text in ASCII, which is all that Python's TLS takes.

    What a bundle says around its certificates may be in any script: "# Főtanúsítvány". Such
    letters mean nothing and are left out.
    """
    return text.encode("ascii", "ignore").decode("ascii")


def decoded(data: str) -> str:
    """The PEM text behind a field of bytes, which documents hold in base64. Raises ValueError."""
    return plain(base64.b64decode(data, validate=True).decode("utf-8"))
