"""Makes a self-signed certificate; ``python -m scheduler.serve.self_signed NAME…``.

The library for it takes ten megabytes of memory and is needed for a moment, so the daemon
runs this module as a process and reads what it prints: private key and certificate, as PEM.
"""

import datetime
import ipaddress
import subprocess
import sys
from collections.abc import Sequence

VALID_DAYS = 365
MAKING_SECONDS = 60.0


def made_elsewhere(names: Sequence[str]) -> bytes:
    """Key and certificate for these host names and addresses, made by a process of its own.

    Blocks for as long as Python takes to start. Raises OSError with what went wrong.
    """
    command = [sys.executable, "-m", __spec__.name, *names]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAKING_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as fault:
        last = fault.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"no self-signed certificate could be made: {last}") from fault
    except subprocess.TimeoutExpired as fault:
        raise OSError(f"no self-signed certificate was made in {fault.timeout:g} s") from fault
    return done.stdout


def make(names: Sequence[str]) -> bytes:
    """Key and certificate for these host names and addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def alternative(name: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    key = ec.generate_private_key(ec.SECP256R1())
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "equipoise")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(itself)
        .issuer_name(itself)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of clients may be behind ours.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(map(alternative, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + certificate.public_bytes(Encoding.PEM)


if __name__ == "__main__":
    sys.stdout.buffer.write(make(sys.argv[1:]))
