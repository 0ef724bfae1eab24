"""Create the certificate authority of a server, and the server's certificate."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from weft.access.auth.shared_authority import SharedAuthority
from weft.access.auth.tls import FOLDER, Material, load
from weft.access.endpoints.addresses import parse_address
from weft.access.endpoints.paths import make_private
from weft.access.endpoints.private_files import read_private, write_private
from weft.errors import InputError, WeftError

Key = ec.EllipticCurvePrivateKey
CA_DAYS: Final = 3650
SERVER_DAYS: Final = 825
"""The longest validity that strict clients accept."""
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def init(folder: Path, hosts: Sequence[str], shared: SharedAuthority | None = None) -> tuple[Material, list[str]]:
    """Make a certificate for these host names. The authority is made once, so that clients keep trusting it: in the
    folder, or for several servers in `shared`."""
    names = list(dict.fromkeys([*LOOPBACK_NAMES, *(_checked_host(host) for host in hosts or _own_names())]))
    make_private(folder)
    make_private(folder / FOLDER)
    tls = folder / FOLDER
    ca, ca_key = _load_or_make_authority(tls) if shared is None else _shared_authority(shared)
    if shared is not None:
        write_private(tls / "ca.pem", _pem(ca))
    key, certificate = _make_certificate(names, ca, ca_key)
    write_private(folder / FOLDER / "server.key", _pem_of_key(key))
    write_private(folder / FOLDER / "server.pem", _pem(certificate) + _pem(ca))  # `join` checks the whole chain
    made = load(folder)
    assert made is not None
    return made, names


def _own_names() -> list[str]:
    names = [socket.gethostname(), socket.getfqdn()]
    return [name for name in dict.fromkeys(names) if name and not name.startswith("localhost")]


def _checked_host(host: str) -> str:
    if host.isdecimal() or parse_address(f"[{host}]" if ":" in host else host).host != host:
        raise InputError(f"{host[:80]!r} is not the name or address of a host", hint="such as gpu-head or 192.0.2.7")
    return host


def _load_or_make_authority(tls: Path) -> tuple[x509.Certificate, Key]:
    try:
        known = load_pem_private_key(read_private(tls / "ca.key"), password=None)
        if not isinstance(known, Key):
            raise WeftError(f"{tls / 'ca.key'} is not a key of Weft\n  move {tls} away, and run weft auth init again")
        return x509.load_pem_x509_certificate(read_private(tls / "ca.pem")), known
    except FileNotFoundError:
        pass
    except ValueError as error:
        raise WeftError(f"{tls} is damaged: {error}\n  move it away, and run weft auth init again") from None
    made, key = _make_authority()
    write_private(tls / "ca.key", _pem_of_key(key))
    write_private(tls / "ca.pem", _pem(made))
    return made, key


def _shared_authority(shared: SharedAuthority) -> tuple[x509.Certificate, Key]:
    """Return the authority of several servers, and make it if there is none. Its key is stored encrypted."""
    password = shared.password(must_exist=shared.load() is not None)
    if (stored := shared.load()) is None:
        made, key = _make_authority()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
        stored = shared.store(_pem(made), pem)
    certificate, encrypted = stored
    try:
        known = load_pem_private_key(encrypted, password=password)
    except ValueError:
        raise WeftError(
            f"{shared.key_file} is not the key of the authority in the database\n"
            "  copy the key file of the server on which weft auth init ran first"
        ) from None
    assert isinstance(known, Key)
    return x509.load_pem_x509_certificate(certificate), known


def _make_authority() -> tuple[x509.Certificate, Key]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Weft authority of {socket.gethostname()}"[:64])])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = (
        _certificate_builder(name, name, key, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, SHA256())
    )
    return made, key


def _make_certificate(names: Sequence[str], ca: x509.Certificate, ca_key: Key) -> tuple[Key, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Weft scheduler")])
    made = (
        _certificate_builder(subject, ca.subject, key, SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, SHA256())
    )
    return key, made


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate_builder(subject: x509.Name, issuer: x509.Name, key: Key, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _pem_of_key(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
