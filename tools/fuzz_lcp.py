"""Fuzz the pack codec, guided by coverage: ``make fuzz`` (tools/fuzz_lcp.py [seconds, default 60]).

Needs atheris (from PyPI; Linux and macOS). The tests also run ``check``, on packs that Hypothesis generates.
A finding is written to a file ``crash-...``; pass that file as the argument to reproduce it.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "tests" / "conformance" / "lcp"
BYTEWISE = 200  # bytes; longer packs would take too long one byte at a time


def check(data: bytes) -> bool:
    """Return True if ``data`` is a valid pack. Any exception that leaves this function is a bug.

    Any bytes decode to a pack or an ``LcpError``, with the same outcome in one chunk and in many, and a
    decoded pack survives a round trip through encode and decode.
    """
    from tokenbox.lcp import Decoder, Event, LcpError, Limits, MemoryStore, decode, encode

    limits = Limits(frame=None, expanded_block=1 << 20, expanded_payload=1 << 21, elements=10_000)
    store = MemoryStore()

    def outcome(size: int) -> tuple[list[Event], object]:
        decoder, events = Decoder(store, limits=limits), list[Event]()
        try:
            for at in range(0, len(data), size):
                events += decoder.feed(data[at : at + size])
            decoder.finish()
        except LcpError as error:
            return events, error.to_dict()
        return events, None

    whole = outcome(max(len(data), 1))
    for size in (1 if len(data) < BYTEWISE else 7, 64):
        assert outcome(size) == whole, f"in chunks of {size}"  # noqa: S101
    if whole[1] is not None:
        return False
    blocks = decode(data, store, limits=limits).blocks
    if blocks:
        assert decode(encode(blocks)).blocks == blocks  # noqa: S101
    return True


def main() -> None:
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        sys.exit(
            "atheris is not installed. Run: pip install atheris. Or run the Hypothesis tests for longer: "
            "TOKENBOX_HYPOTHESIS=deep pytest tests/lcp"
        )

    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    with atheris.instrument_imports(include=["tokenbox.lcp", "tokenbox.content"]):
        import tokenbox.lcp  # noqa: F401  # atheris instruments only imports in this block

    def one_input(data: bytes) -> None:
        check(data)

    if not seconds.isdecimal():  # the file of a finding
        one_input(Path(seconds).read_bytes())
        return
    with tempfile.TemporaryDirectory() as corpus:
        for fixture in FIXTURES.rglob("*.bcp"):
            (Path(corpus) / fixture.parent.name).write_bytes(fixture.read_bytes())
        options = [f"-max_total_time={seconds}", "-max_len=600", "-timeout=10", "-rss_limit_mb=2048"]
        atheris.Setup([sys.argv[0], *options, corpus], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
