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

from tokenbox import lookups as _lookups
from tokenbox.__about__ import __version__

if TYPE_CHECKING:
    from tokenbox import batch as batch
    from tokenbox import caching as caching
    from tokenbox import catalog as catalog
    from tokenbox import config as config
    from tokenbox import ctx as ctx
    from tokenbox import documents as documents
    from tokenbox import folder as folder
    from tokenbox import inspect as inspect
    from tokenbox import lcp as lcp
    from tokenbox import ledger as ledger
    from tokenbox import models as models
    from tokenbox import providers as providers
    from tokenbox import store as store
    from tokenbox.api import breakpoints, count, fit, layout, pack, render_blocks, select, whatif
    from tokenbox.catalog import TokenizerFamily
    from tokenbox.compose.layout import Layout
    from tokenbox.compose.requests import Count, RequestCounter
    from tokenbox.content.group import Group
    from tokenbox.content.message import Message
    from tokenbox.content.section import Cut, Keep, Section
    from tokenbox.conversation import ChatFormat, Conversation, Fitted
    from tokenbox.engine.result import Action, Decision, Policy, Reason, SectionResult, Step
    from tokenbox.errors import ContextCriticalOverflow, TokenboxError
    from tokenbox.models import Counting
    from tokenbox.policy import override as override
    from tokenbox.tokenizers.protocol import Tokenizer, TokenizerIdentity

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
    from tokenbox.catalog import tokenizer_family  # tables of some thousand models

    return tokenizer_family(model)


def _counter_of_model(model: str) -> RequestCounter | None:
    from tokenbox.counters import counter_of_model  # chat formats

    return counter_of_model(model)


def _settings_of(model: str) -> tuple[str, Counting]:
    from tokenbox.config import current  # reads files

    settings = current()
    return settings.model_id(model), settings.counting(model)


_lookups.settings_of.answered_by(_settings_of)
_lookups.family_of.answered_by(_family_of)
_lookups.counter_of_model.answered_by(_counter_of_model)

# The module of each public name. Modules are imported on first use, to keep `import tokenbox` fast.
_NAMES_BY_MODULE = {
    "api": ("breakpoints", "count", "fit", "layout", "pack", "render_blocks", "select", "whatif"),
    "compose.requests": ("Count",),
    "compose.layout": ("Layout",),
    "content.message": ("Message",),
    "content.group": ("Group",),
    "content.section": ("Cut", "Keep", "Section"),
    "conversation": ("ChatFormat", "Conversation", "Fitted"),
    "engine.result": ("Action", "Decision", "Policy", "Reason", "SectionResult", "Step"),
    "errors": ("ContextCriticalOverflow", "TokenboxError"),
    "tokenizers.protocol": ("Tokenizer", "TokenizerIdentity"),
}
_MODULE_OF = {name: f"tokenbox.{module}" for module, names in _NAMES_BY_MODULE.items() for name in names}
_SUBPACKAGES = """
    api batch caching catalog compose config content conversation ctx documents engine errors folder inspect
    lcp ledger models policy proof providers render store tokenizers
""".split()
_SUBMODULES = {name: f"tokenbox.{name}" for name in _SUBPACKAGES} | {"override": "tokenbox.policy.override"}

if not TYPE_CHECKING:  # a type checker reads the imports above, and reports any other name

    def __getattr__(name: str) -> object:
        """Import a public name or a submodule on first use."""
        module_name = _SUBMODULES.get(name) or _MODULE_OF.get(name)
        if module_name is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(module_name)
        value = globals()[name] = module if name in _SUBMODULES else getattr(module, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})
