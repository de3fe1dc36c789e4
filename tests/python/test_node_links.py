"""Links between nodes: encrypted, and only for nodes that the database names by their certificates."""

from __future__ import annotations

import datetime
import socket
import ssl
import struct
from pathlib import Path
from typing import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nodes import Cluster

pytestmark = pytest.mark.timeout(120)

MASK = (1 << 64) - 1
HELLO, PING, PONG = 2, 8, 9


@pytest.fixture
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    cluster = Cluster(tmp_path, size=2, lease=30)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def siphash(key: bytes, data: bytes) -> int:
    """SipHash-2-4."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def left(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = left(v[1], 13) ^ v[0]
            v[0] = left(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = left(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = left(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = left(v[1], 17) ^ v[2]
            v[2] = left(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def frames(tag: int, content: bytes) -> bytes:
    """One frame, as it is written."""
    frame = bytes([tag << 3 | 2, len(content)]) + content
    body = b"\x0a" + bytes([len(frame)]) + frame
    return struct.pack("<I", len(body)) + body


def hello(node: int, challenge: int, proof: int, to: int) -> bytes:
    fixed = b"\x19" + struct.pack("<Q", challenge) + b"\x21" + struct.pack("<Q", proof)
    return frames(HELLO, bytes([0x08, node, 0x10, 1]) + fixed + bytes([0x28, to]))


class Stranger:
    """An attacker who can read the database, with a certificate of its own."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.secret = bytes.fromhex(cluster.postgres.query("SELECT encode(secret, 'hex') FROM segno.cluster"))
        ids = cluster.postgres.query("SELECT string_agg(node::text, ',' ORDER BY name) FROM segno.nodes").split(",")
        self.to, self.me = (int(number) for number in ids)
        node = cluster.nodes[0]
        host, port = node.flags[node.flags.index("--node-listen") + 1].rsplit(":", 1)
        self.address = (host, int(port))
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stranger")])
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
        self.certificate = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
        self.file = directory / "stranger.pem"
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.file.write_bytes(private + self.certificate.public_bytes(pem))

    def dial(self, *, shows_certificate: bool = True, knows_secret: bool = True) -> str:
        """How far a link gets: refused by TLS, without a hello, closed after the proof, or open."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if shows_certificate:
            context.load_cert_chain(self.file)
        secret = self.secret if knows_secret else bytes(16)
        try:
            with context.wrap_socket(socket.create_connection(self.address, 10)) as stream:
                stream.sendall(hello(self.me, 7, 0, self.to))
                answer = self.frame(stream)
                if not answer:
                    return "no hello"
                challenge = struct.unpack("<Q", answer[answer.index(b"\x19") + 1 :][:8])[0]
                said = struct.pack("<QQQQ", 7, challenge, self.me, self.to)
                stream.sendall(hello(self.me, 0, siphash(secret, b"\0" + said), self.to) + frames(PING, b""))
                answer = self.frame(stream)
                return "open" if answer and answer[2] == PONG << 3 | 2 else "closed"
        except (ssl.SSLError, ConnectionError):
            return "refused by TLS"

    @staticmethod
    def frame(stream: socket.socket) -> bytes:
        stream.settimeout(10)
        head = stream.recv(4)
        return stream.recv(struct.unpack("<I", head)[0]) if len(head) == 4 else b""


def test_siphash() -> None:
    """The vector of the paper."""
    assert siphash(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


def test_only_certificates_of_the_database_are_accepted(pair: Cluster, tmp_path: Path) -> None:
    rows = pair.postgres.query("SELECT count(*), count(certificate), count(DISTINCT certificate) FROM segno.nodes")
    assert rows == "2|2|2"
    stranger = Stranger(pair, tmp_path)
    # Cleartext gets nothing but the alert of TLS.
    with socket.create_connection(stranger.address, 10) as stream:
        stream.sendall(hello(stranger.me, 7, 0, stranger.to))
        stream.settimeout(10)
        try:
            answer = stream.recv(100)
        except ConnectionError:
            answer = b""
        assert answer == b"" or answer[0] == 21, answer
    assert stranger.dial(shows_certificate=False) == "refused by TLS"
    assert stranger.dial(knows_secret=False) == "closed"
    assert stranger.dial() == "closed", "it knows the secret, and its certificate is not that of the node that it says it is"
    # The same with the certificate in the row of that node: this was the reason, and nothing else.
    der = stranger.certificate.public_bytes(serialization.Encoding.DER).hex()
    pair.postgres.query(
        f"UPDATE segno.nodes SET certificate = decode('{der}', 'hex') WHERE node = {stranger.me}; "
        "UPDATE segno.cluster SET map = map + 1"
    )
    import time

    until = time.monotonic() + 20
    while (reached := stranger.dial()) != "open":
        assert time.monotonic() < until, reached
        time.sleep(0.2)
