"""An upstream over TLS: a certificate is checked, and what does not hold is not talked to."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import socketserver
import ssl
import threading
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests import loops
from tests.gateway import stub
from tests.services import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.running import StartGateway

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


def certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """A certificate that signs itself, for ``host``, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokenbox test")])
    address: x509.GeneralName = (
        x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2120, 1, 1, tzinfo=dt.UTC))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / f"{host}.pem", folder / f"{host}.key"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return public, private


def tls(folder: Path, host: str) -> tuple[ssl.SSLContext, Path]:
    """What a server with a certificate for ``host`` needs, and the certificate."""
    public, private = certificate(folder, host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(public, private)
    return context, public


@pytest.mark.slow
def test_an_upstream_with_a_trusted_certificate_answers(tmp_path: Path, start_gateway: StartGateway) -> None:
    context, public = tls(tmp_path, "127.0.0.1")
    port = free_port()

    async def scenario() -> None:
        runner = web.AppRunner(stub.make(chunks=3), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        gateway = await asyncio.to_thread(
            start_gateway,
            f"https://127.0.0.1:{port}",
            env={"SSL_CERT_FILE": str(public)},
            options=["--mode", "observe"],
        )
        answer = await asyncio.to_thread(gateway.post, "/v1/chat/completions", BODY)
        assert answer.status == 200, answer.data
        assert answer.json["choices"][0]["message"]["content"] == "Hello there"
        streamed = await asyncio.to_thread(gateway.post, "/v1/chat/completions", {**BODY, "stream": True})
        assert streamed.data.endswith(b"data: [DONE]\n\n")
        await runner.cleanup()

    loops.run(scenario())


@pytest.mark.parametrize(
    ("host", "trusted", "cause"),
    [
        ("127.0.0.1", False, "self-signed certificate"),
        ("elsewhere.example", True, "certificate is not valid for '127.0.0.1'"),
    ],
)
@pytest.mark.slow
def test_an_upstream_with_another_certificate_gets_nothing(
    tmp_path: Path, start_gateway: StartGateway, host: str, trusted: bool, cause: str
) -> None:
    context, public = tls(tmp_path, host)
    handshakes = 0
    received = b""

    # Blocking, because asyncio leaves a transport open whose client gives the handshake up.
    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            nonlocal handshakes, received
            try:
                with context.wrap_socket(self.request, server_side=True) as connection:
                    received += connection.recv(1)
            except OSError:
                handshakes += 1

    with socketserver.TCPServer(("127.0.0.1", 0), Connection) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            env = {"SSL_CERT_FILE": str(public)} if trusted else {}
            address = f"https://127.0.0.1:{server.server_address[1]}"
            gateway = start_gateway(address, env=env, options=["--mode", "observe"])
            answer = gateway.post("/v1/chat/completions", BODY)
        finally:
            server.shutdown()
            thread.join()
    assert (answer.status, answer.json["error"]["code"]) == (502, "upstream_unreachable"), answer.data
    assert cause in gateway.log
    assert cause not in answer.data.decode()
    assert handshakes, "the gateway did not try"
    assert not received
