"""What this process can count a model with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenbox.catalog import tokenizer_family
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.gateway.counting import Local
from tokenbox.tokenizers.registry import FILE_PREFIX, get, is_builtin

if TYPE_CHECKING:
    from tokenbox.gateway.settings import Settings
    from tokenbox.tokenizers.protocol import TokenizerIdentity

_MOST = 10_000
_OPENAI = frozenset({"o200k_base", "cl100k_base"})
# Files that have a chat template beside their vocabulary.
_WITH_TEMPLATE = ".gguf"


class LocalCounts:
    """Tokenizers and formats by model.

    A model's own files, which the operator names, go before its server's count; else what is published for
    the model estimates it, or characters / 4.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, Local] = {}
        # Models that are counted alike share a format, and what it remembers of messages.
        self._formats: dict[TokenizerIdentity, ChatFormat] = {}

    def become(self, settings: Settings) -> None:
        """Other settings, from the next request on."""
        self._settings = settings
        self._known = {}

    def of(self, model: str) -> Local:
        """What counts for the model here. Raises ``TokenizerError`` for files that cannot be read."""
        known = self._known.get(model)
        if known is None:
            if len(self._known) >= _MOST:  # names are the clients'
                self._known = {}
            known = self._known[model] = self._make(model)
        return known

    def _make(self, model: str) -> Local:
        named = self._settings.model(model).tokenizer
        if named is not None:
            return self._named(named)
        family = tokenizer_family(model)
        name = None if family is None else family.name
        if name in _OPENAI:
            made = ChatFormat.openai(model)
            form = self._formats.setdefault(made.identity, made)
            return Local(get(str(name)), form, f"{name}, published rules", certain=False)
        if name is not None and is_builtin(name):
            return Local(get(name), None, name, certain=False)
        return Local(get("chars4"), None, "characters / 4", certain=False)

    @staticmethod
    def _named(name: str) -> Local:
        """A tokenizer of the package has no template; a model's files have."""
        if not name.startswith(FILE_PREFIX):
            return Local(get(name), None, name, certain=False)
        path = Path(name.removeprefix(FILE_PREFIX))
        if path.suffix == _WITH_TEMPLATE or path.is_dir():
            form = ChatFormat.open(path)
            return Local(
                get(f"{FILE_PREFIX}{_vocabulary(path)}"), form, f"template of {path.name}", certain=True
            )
        return Local(get(name), None, path.name, certain=False)


def _vocabulary(path: Path) -> Path:
    return path / "tokenizer.json" if path.is_dir() else path
