"""A certificate authority that only tests trust, and the certificates that it issues."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
CA_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A private key, of a kind that is fast to generate."""
    return ec.generate_private_key(ec.SECP256R1())


def name_of(text: str) -> x509.Name:
    """The name of a certificate's owner."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem_of(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    """A private key in PEM form, encrypted if there is a passphrase."""
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@dataclass(frozen=True)
class Authority:
    """Issues certificates into a folder; `bundle` is its own certificate, for clients that trust it."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    def __post_init__(self) -> None:
        builder = (
            self._builder("private CA", self.key, DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(CA_USAGE, critical=True)
        )
        self.bundle.write_bytes(self._signed(builder))

    @property
    def bundle(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "ca.pem"

    def issue(self, name: str, host: str = "127.0.0.1", *, lasts: timedelta = DAY) -> Path:
        """A certificate for an IP address or a host, and its key, in one file."""
        key = new_key()
        try:
            owner: x509.GeneralName = x509.IPAddress(ip_address(host))
        except ValueError:
            owner = x509.DNSName(host)
        builder = self._builder(name, key, lasts).add_extension(x509.SubjectAlternativeName([owner]), critical=False)
        path = self.folder / f"{name}.pem"
        path.write_bytes(self._signed(builder) + pem_of(key))
        return path

    def server(self, name: str, host: str = "127.0.0.1", *, lasts: timedelta = DAY) -> ssl.SSLContext:
        """The TLS context of a server with such a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(name, host, lasts=lasts))
        return context

    def demanding_server(self, name: str) -> ssl.SSLContext:
        """The TLS context of a server that requires a client certificate of this authority."""
        context = self.server(name)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.bundle)
        return context

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey, lasts: timedelta) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        issuer = self.key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(name_of(name))
            .issuer_name(name_of("private CA"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + lasts)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
