"""The texts that a bundle is replayed with: its own, and those that are given again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.cli.streams import read_bytes
from tokenbox.errors import MissingExtra, TokenboxError
from tokenbox.proof.bundle import TEXTS
from tokenbox.proof.errors import ReplayImpossible
from tokenbox.proof.evidence import Kind
from tokenbox.proof.replay import Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.proof.contents import Contents
    from tokenbox.proof.manifest import Manifest
    from tokenbox.proof.replay import Replay
    from tokenbox.proof.verify import Files

# All of it is in memory.
MAX_BYTES = 1 << 30
# What decides in the gateway, whose modules are loaded for its bundles only.
GATEWAY = "gateway/1"
_PACK = ".bcp"
_JSON = ".json"
_DOCUMENTS = (".toml", ".yaml", ".yml", ".json")


def texts_of(files: Files, manifest: Manifest, given: Sequence[str]) -> Texts:
    """The texts in a verified bundle, and those at the paths ``given``. Raises :class:`ReplayImpossible`."""
    texts = Texts()
    tree = manifest.tree(TEXTS)
    if tree is not None:
        if tree.size > MAX_BYTES:
            raise ReplayImpossible(
                f"the texts in the bundle have {tree.size:,} bytes; at most {MAX_BYTES:,} are replayed.",
                bytes=tree.size,
                limit=MAX_BYTES,
            )
        for name in files.names():
            if name.startswith(TEXTS):
                texts.add(files.read(name, MAX_BYTES))
    for path in given:
        for file in _files(path):
            _add_file(texts, file)
    packed = [path for path in given if not path.endswith(_PACK)]
    if manifest.kind is Kind.BLOCKS and packed:
        from tokenbox.pack import collect, survey  # noqa: PLC0415

        collection = collect(survey(packed))
        texts.add_blocks(collection.blocks)
        texts.add_blocks(collection.summarized())
    return texts


def replayed(contents: Contents, texts: Texts, tokenizer: str | None) -> Replay:
    """Decided again by whoever has decided it. Raises :class:`ReplayImpossible`."""
    if contents.manifest.predicate["algorithm"] == GATEWAY:
        try:
            from tokenbox.gateway.replaying import replay as of_gateway  # noqa: PLC0415
        except ImportError:
            raise MissingExtra.of("replaying what a gateway decided", "gateway") from None
        return of_gateway(contents, texts, tokenizer)
    from tokenbox.ctx.replay import replay  # noqa: PLC0415
    from tokenbox.tokenizers import registry  # noqa: PLC0415

    return replay(contents, texts, None if tokenizer is None else registry.get(tokenizer))


def _files(path: str) -> list[str]:
    """The file itself, or the files in the folder."""
    if not Path(path).is_dir():
        return [path]
    found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return [str(file) for file in found if file.is_file()]


def _add_file(texts: Texts, path: str) -> None:
    """A file as it is; of a layout document and of chat messages, the texts in it too."""
    data = read_bytes(path)
    texts.add(data)
    if Path(path).suffix.lower() == _JSON and _add_messages(texts, data):
        return
    if Path(path).suffix.lower() in _DOCUMENTS:
        from tokenbox.documents import read_document  # noqa: PLC0415

        try:
            document = read_document(path)
        except TokenboxError:
            return  # a file that only ends like one
        for section in document.sections:
            for text in (section.content, *section.extra):
                texts.add(text.encode())


def _add_messages(texts: Texts, data: bytes) -> bool:
    """The messages of a list or of a request, and its tools, if that is what the file has."""
    from tokenbox.content.message import Message  # noqa: PLC0415
    from tokenbox.conversation.record import as_json  # noqa: PLC0415
    from tokenbox.policy import read_chunks  # noqa: PLC0415
    from tokenbox.policy.messages import message_text, tools_text  # noqa: PLC0415

    try:
        value: Any = json.loads(data)
        asked = value if isinstance(value, dict) else {"messages": value}
        messages = [Message.of(message) for message in asked["messages"]]
        request = read_chunks(messages, tools=asked.get("tools"))
    except (TokenboxError, ValueError, TypeError, KeyError, RecursionError):
        return False
    # As policies keep them, and as windows do.
    for message in messages:
        texts.add(message_text(message).encode())
        texts.add(as_json(message.to_dict()).encode())
    if request.tools:
        texts.add(tools_text(request).encode())
        texts.add(as_json(asked["tools"]).encode())
    return True
