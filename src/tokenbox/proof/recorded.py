"""Read the arguments of a recorded call from a bundle, with its texts by digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from tokenbox.compose.blocks import block_digest
from tokenbox.lcp import LcpError, decode
from tokenbox.lcp.frames import MAGIC
from tokenbox.proof.bundle import INPUTS, MANIFEST
from tokenbox.proof.errors import BundleInvalid, ReplayImpossible

if TYPE_CHECKING:
    from tokenbox.content.blocks import Block
    from tokenbox.proof.contents import Contents
    from tokenbox.proof.evidence import Record

_MAX_SHOWN = 3
_RATIO = re.compile("[0-9]{1,1001}/[1-9][0-9]{0,1000}")


class Texts:
    """Texts and blocks by digest, from any source."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self._texts: dict[str, bytes] = {}
        self._blocks: dict[str, Block] = {}
        self._packs: list[bytes] = []
        for text in texts:
            self.add(text)

    def add(self, text: bytes) -> None:
        """Add a text. If it is a pack (``.bcp``), its blocks are added when a block is requested."""
        self._texts[hashlib.sha256(text).hexdigest()] = text
        if text.startswith(MAGIC):
            self._packs.append(text)

    def add_blocks(self, blocks: Iterable[Block]) -> None:
        self._blocks |= {block_digest(block): block for block in blocks}

    def text(self, digest: object) -> str | None:
        data = self._texts.get(digest) if isinstance(digest, str) else None
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    def block(self, digest: object) -> Block | None:
        for pack in self._packs:
            with suppress(LcpError):  # a text that only begins like a pack
                self.add_blocks(decode(pack).blocks)
        self._packs = []
        return self._blocks.get(digest) if isinstance(digest, str) else None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A verified bundle and its texts. Its content may be forged, so that callers must validate it.

    ``counter``: replaces the one that the bundle names; None if not given.
    """

    contents: Contents
    texts: Texts
    counter: Any = None

    @property
    def predicate(self) -> Record:
        return self.contents.manifest.predicate

    @property
    def arguments(self) -> Record:
        return cast("Record", self.predicate["arguments"])

    @property
    def inputs(self) -> Sequence[Record]:
        return self.contents.inputs

    @property
    def counts_here(self) -> bool:
        """Whether the counter runs locally, not on a server."""
        return self.counter is not None or bool(cast("Record", self.predicate["tokenizer"])["fingerprint"])

    def figure(self, name: str) -> Any:  # noqa: ANN401  # a number, a ratio as text, or None
        """Return a figure of the budget; None if unknown."""
        return cast("dict[str, Record]", self.predicate["budget"])[name]["value"]

    def texts_of(self, wanted: Sequence[tuple[str, object]], what: str) -> list[str]:
        """Return the texts by names and digests. Raises :class:`ReplayImpossible` if some are missing."""
        found = [self.texts.text(digest) for _, digest in wanted]
        missing = [name for (name, _), text in zip(wanted, found, strict=True) if text is None]
        if missing:
            raise missing_texts(list(dict.fromkeys(missing)), what)
        return cast("list[str]", found)

    def json(self, text: str, name: str) -> Any:  # noqa: ANN401  # JSON
        """Parse a text as JSON. Raises :class:`BundleInvalid`."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BundleInvalid("is not JSON.", file=INPUTS, field=name) from None


def missing_texts(names: list[str], what: str) -> ReplayImpossible:
    """Return the error for texts that were not found."""
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ReplayImpossible(
        f"{what} are missing: {', '.join(names[:_MAX_SHOWN])}{more}. The bundle does not contain them; name "
        "their files with --from, or make bundles with --proof-texts.",
        missing=names,
    )


def ratio(value: object) -> Any:  # noqa: ANN401  # the caller validates other values
    """Parse a ratio such as ``1/3``; return anything else unchanged."""
    return Fraction(value) if isinstance(value, str) and _RATIO.fullmatch(value) else value


def broken(field: str, what: str) -> BundleInvalid:
    """Return the error for an invalid field of the predicate."""
    return BundleInvalid(what, file=MANIFEST, field=f"predicate.{field}")
