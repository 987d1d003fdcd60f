"""The certificates of one control plane: an authority, a server, and its clients."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Certificates:
    """A certificate authority that writes what it issues into one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA(organization_name="Equipoise end-to-end tests")
        self.authority = directory / "ca.crt"
        self._authority.cert_pem.write_to_path(str(self.authority))

    def server(self, name: str) -> KeyPair:
        """A serving certificate for the loopback address."""
        return self._write(name, self._authority.issue_cert("127.0.0.1", "localhost"))

    def client(self, user: str, group: str) -> KeyPair:
        """A client certificate that makes its holder ``user``, member of ``group``."""
        # Go refuses a certificate without any alternative name, though a client needs none.
        issued = self._authority.issue_cert(
            "client.invalid", common_name=user, organization_name=group
        )
        return self._write(user, issued)

    def signing_key(self, name: str) -> Path:
        """A private key with which the API server signs service account tokens."""
        issued = self._authority.issue_cert(common_name=name, key_type=trustme.KeyType.RSA)
        return self._write(name, issued).key

    def trust(self, client: KeyPair | None = None) -> ssl.SSLContext:
        """A context that trusts the authority and, if given, presents the client's certificate."""
        context = ssl.create_default_context(cafile=self.authority)
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def _write(self, name: str, issued: trustme.LeafCert) -> KeyPair:
        pair = KeyPair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(str(pair.certificate))
        issued.private_key_pem.write_to_path(str(pair.key))
        return pair
