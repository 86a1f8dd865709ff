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
from tokenbox.api import breakpoints, count, fit, layout, pack, render_blocks, select, whatif
from tokenbox.api import counter_of_model as _counter_of_model
from tokenbox.compose.requests import Count
from tokenbox.compose.sections import Layout, SectionResult
from tokenbox.content.message import Message
from tokenbox.content.section import Cut, Group, Keep, Section
from tokenbox.conversation import ChatFormat, Conversation, Fitted
from tokenbox.conversation.counters import MODELS as _MODELS
from tokenbox.engine.result import Action, Decision, Policy, Reason, Step
from tokenbox.errors import ContextCriticalOverflow, TokenboxError
from tokenbox.tokenizers.ownership import FAMILIES as _FAMILIES
from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from types import ModuleType

    from tokenbox import catalog as catalog
    from tokenbox import config as config
    from tokenbox import ctx as ctx
    from tokenbox import documents as documents
    from tokenbox import folder as folder
    from tokenbox import lcp as lcp
    from tokenbox import ledger as ledger
    from tokenbox import models as models
    from tokenbox import providers as providers
    from tokenbox import store as store
    from tokenbox.catalog import TokenizerFamily
    from tokenbox.policy import override as override

__all__ = [
    "Action",
    "ChatFormat",
    "ContextCriticalOverflow",
    "Conversation",
    "Count",
    "Cut",
    "Decision",
    "Fitted",
    "Group",
    "Keep",
    "Layout",
    "Message",
    "Policy",
    "Reason",
    "Section",
    "SectionResult",
    "Step",
    "TokenboxError",
    "Tokenizer",
    "TokenizerIdentity",
    "__version__",
    "breakpoints",
    "count",
    "fit",
    "layout",
    "pack",
    "render_blocks",
    "select",
    "whatif",
]


def _family_of(model: str) -> TokenizerFamily | None:
    """The catalog has the one table of models; tokenizers, which it does not know, ask it on use."""
    from tokenbox.catalog import tokenizer_family  # noqa: PLC0415

    return tokenizer_family(model)


_FAMILIES.look_up_with(_family_of)
_MODELS.look_up_with(_counter_of_model)

# Parts that need no import of their own: `tokenbox.ctx` loads it, and `import tokenbox` stays light.
_NAMED = ("catalog", "config", "ctx", "documents", "folder", "lcp", "ledger", "models", "providers", "store")
_PARTS = {name: f"tokenbox.{name}" for name in _NAMED} | {"override": "tokenbox.policy.override"}

if not TYPE_CHECKING:  # to the type checker these are the imports above, and nothing else is there

    def __getattr__(name: str) -> ModuleType:
        """A part of tokenbox, loaded on first use."""
        if name not in _PARTS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        return import_module(_PARTS[name])

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PARTS})
