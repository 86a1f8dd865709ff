"""Replays a bundle with its own texts and those that the user gives again."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenbox
from tokenbox.cli.streams import read_bytes
from tokenbox.content.blocks import Block
from tokenbox.content.request import in_parts
from tokenbox.errors import TokenboxError, needing
from tokenbox.folder import Source
from tokenbox.proof.calls import Texts
from tokenbox.proof.contents import Contents
from tokenbox.proof.evidence import EvidenceKind
from tokenbox.proof.manifest import Manifest
from tokenbox.proof.of_messages import message_texts
from tokenbox.proof.replay import Replay, recorded_tokenizer, replay
from tokenbox.proof.verify import BundleFiles
from tokenbox.tokenizers import registry

# Functions recorded by the gateway and the shell are loaded only for their bundles; each needs an extra.
_SURFACES = {"gateway": "replaying what a gateway decided", "shell": "replaying what a shell sent"}
_DOCUMENTS = (".toml", ".yaml", ".yml", ".json")


def texts_of(files: BundleFiles, manifest: Manifest, given: Sequence[str]) -> Texts:
    """Read the texts of a verified bundle and of the paths ``given``. Raises :class:`ReplayImpossible`."""
    texts = Texts.of_bundle(files, manifest)
    for path in given:
        for file in _files(path):
            _add_file(texts, file)
    folders = [path for path in given if not path.endswith(".bcp")]
    if manifest.kind is EvidenceKind.BLOCKS and folders:
        source = tokenbox.folder.read(tokenbox.folder.survey(folders))
        texts.add_blocks(tokenbox.folder.as_blocks(source))
        texts.add_blocks(_repacked(source, manifest))
    return texts


def _repacked(source: Source, manifest: Manifest) -> Sequence[Block]:
    """Return the blocks of the recorded pack, which are the same if it had no query."""
    options: Any = manifest.predicate["arguments"]
    budget: Any = manifest.predicate["budget"]
    tokenizer: Any = manifest.predicate["tokenizer"]
    try:
        counter = recorded_tokenizer(str(tokenizer["name"]))
        return tokenbox.folder.pack_source(
            source, counter, budget["tokens"]["value"], options["mode"]
        ).rendering.inputs
    except (TokenboxError, ValueError, TypeError, KeyError):
        return [file.block() for file in source.files if file.text is not None]


def replayed(contents: Contents, texts: Texts, tokenizer: str | None) -> Replay:
    """Make the recorded call again. Raises :class:`ReplayImpossible`."""
    name = str(contents.manifest.predicate["function"])
    if name in _SURFACES:
        with needing(_SURFACES[name], name):
            function = getattr(import_module(f"tokenbox.{name}.evidence"), name.upper())
        return replay(contents, texts, tokenizer, {name: function})

    return replay(contents, texts, None if tokenizer is None else registry.get(tokenizer))


def _files(path: str) -> list[str]:
    if not Path(path).is_dir():
        return [path]
    found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return [str(file) for file in found if file.is_file()]


def _add_file(texts: Texts, path: str) -> None:
    """Add a file and, if it is a layout document or chat messages, the texts in it."""
    data = read_bytes(path)
    texts.add(data)
    if Path(path).suffix.lower() == ".json" and _add_messages(texts, data):
        return
    if Path(path).suffix.lower() in _DOCUMENTS:
        try:
            document = tokenbox.documents.read_document(path)
        except TokenboxError:
            return  # not a layout document
        for section in document.sections:
            for text in section.texts:
                texts.add(text.encode())


def _add_messages(texts: Texts, data: bytes) -> bool:
    """Add the messages and tools of a chat; return False if the file is something else."""
    try:
        value: Any = json.loads(data)
        body = value if isinstance(value, dict) else {"messages": value}
        parts = in_parts(body)
        found = list(message_texts((*parts.head, *parts.items), parts.tools))
    except (TokenboxError, ValueError, TypeError, KeyError, RecursionError):
        return False
    for text in found:
        texts.add(text.encode())
    return True
