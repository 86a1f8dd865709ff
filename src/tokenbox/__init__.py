r"""tokenbox compiles LLM context: exact token budgets, the same bytes every time, every decision recorded.

>>> import tokenbox
>>> result = tokenbox.layout(
...     [
...         {"id": "rules", "content": "Answer in English."},
...         {"id": "notes", "content": "one two three four five", "shrink": 1},
...     ],
...     budget=28,
...     tokenizer="utf8-bytes",
... )
>>> result.text
'Answer in English.\n\none two '
>>> result.total
28
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.__about__ import __version__
from tokenbox.compose.lay_out import whatif
from tokenbox.compose.record import Layout, SectionResult
from tokenbox.content.message import Message
from tokenbox.content.section import Keep, Section
from tokenbox.conversation import ChatFormat, Conversation, Fitted
from tokenbox.engine.result import Action, Decision, Reason, Step
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.proof.proven import fit, layout
from tokenbox.tokenizers.ownership import FAMILIES as _FAMILIES
from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from types import ModuleType

    from tokenbox import catalog as catalog
    from tokenbox import config as config
    from tokenbox import ctx as ctx
    from tokenbox import documents as documents
    from tokenbox import lcp as lcp
    from tokenbox import ledger as ledger
    from tokenbox import override as override
    from tokenbox import pack as pack
    from tokenbox import providers as providers
    from tokenbox import store as store
    from tokenbox.catalog import TokenizerFamily

__all__ = [
    "Action",
    "ChatFormat",
    "ContextCriticalOverflow",
    "Conversation",
    "Decision",
    "Fitted",
    "Keep",
    "Layout",
    "Message",
    "Reason",
    "Section",
    "SectionResult",
    "Step",
    "TokenboxError",
    "Tokenizer",
    "TokenizerIdentity",
    "__version__",
    "fit",
    "layout",
    "whatif",
]


def _family_of(model: str) -> TokenizerFamily | None:
    """The catalog has the one table of models; tokenizers, which it does not know, ask it on use."""
    from tokenbox.catalog import tokenizer_family  # noqa: PLC0415

    return tokenizer_family(model)


_FAMILIES.look_up_with(_family_of)

# Parts that need no import of their own: `tokenbox.ctx` loads it, and `import tokenbox` stays light.
_PARTS = frozenset(
    ("catalog", "config", "ctx", "documents", "lcp", "ledger", "override", "pack", "providers", "store")
)

if not TYPE_CHECKING:  # to the type checker these are the imports above, and nothing else is there

    def __getattr__(name: str) -> ModuleType:
        """A part of tokenbox, loaded on first use."""
        if name not in _PARTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        return import_module(f"{__name__}.{name}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PARTS})
