"""An upstream over TLS: a certificate is checked, and what does not hold is not talked to."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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


@pytest.mark.parametrize(
    ("host", "trusted", "status"),
    [("127.0.0.1", True, 200), ("127.0.0.1", False, 502), ("elsewhere.example", True, 502)],
)
@pytest.mark.slow
def test_a_certificate_is_checked(
    tmp_path: Path, start_gateway: StartGateway, host: str, trusted: bool, status: int
) -> None:
    public, private = certificate(tmp_path, host)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(public, private)
    port = free_port()

    async def scenario() -> None:
        runner = web.AppRunner(stub.make(chunks=3), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        env = {"SSL_CERT_FILE": str(public)} if trusted else {}
        gateway = await asyncio.to_thread(
            start_gateway, f"https://127.0.0.1:{port}", env=env, options=["--mode", "observe"]
        )
        answer = await asyncio.to_thread(gateway.post, "/v1/chat/completions", BODY)
        assert answer.status == status, answer.data
        if status == 200:
            assert answer.json["choices"][0]["message"]["content"] == "Hello there"
            streamed = await asyncio.to_thread(gateway.post, "/v1/chat/completions", {**BODY, "stream": True})
            assert streamed.data.endswith(b"data: [DONE]\n\n")
        else:
            assert answer.json["error"]["code"] == "upstream_unreachable"
        await runner.cleanup()

    asyncio.run(scenario())
