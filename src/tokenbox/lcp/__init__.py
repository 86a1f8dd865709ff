"""The LCP/BCP pack codec, sans-I/O: bytes in, blocks or events out, and back.

``decode`` and ``encode`` work on whole packs, ``Decoder`` on a stream of bytes. ``PackBuilder`` collects
blocks with options for each. Importing this package loads neither zstandard nor blake3.
"""

from tokenbox.lcp.addressing import ContentStore, MemoryStore, body_digest
from tokenbox.lcp.decoder import BlockEvent, Decoder, EndEvent, Event, HeaderEvent, Limits, Pack, decode
from tokenbox.lcp.encoder import Compression, PackBuilder, encode, encode_again
from tokenbox.lcp.errors import LcpError
from tokenbox.lcp.frames import Frame, Header

__all__ = [
    "BlockEvent",
    "Compression",
    "ContentStore",
    "Decoder",
    "EndEvent",
    "Event",
    "Frame",
    "Header",
    "HeaderEvent",
    "LcpError",
    "Limits",
    "MemoryStore",
    "Pack",
    "PackBuilder",
    "body_digest",
    "decode",
    "encode",
    "encode_again",
]
