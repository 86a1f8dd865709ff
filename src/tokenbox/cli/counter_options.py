"""The options that say what counts tokens: ``--model``, ``--tokenizer`` and ``--engine``.

A command that counts texts only, with a tokenizer by its name, loads neither the counters of requests nor the
catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tokenbox
from tokenbox.cli.options import option
from tokenbox.cli.streams import write_error
from tokenbox.render.lines import printable
from tokenbox.tokenizers import registry

if TYPE_CHECKING:
    from tokenbox.compose.requests import Counts
    from tokenbox.tokenizers.protocol import Engine, Tokenizer

DEFAULT_TOKENIZER = "o200k_base"
ENGINE_OPTION = option("--engine", "For byte-pair vocabularies; fast needs the extra `fast`.", "auto")


def by_settings(
    model: str | None, tokenizer: str | None, *, ask: bool = True
) -> tuple[str | None, Counts | None]:
    """Return the id of a model and its counter: that of the option, else that of the settings.

    If the settings name a server for the model, the counter is the one of ``tokenbox estimate``, which may
    ``ask`` the server.
    """
    if model is None or tokenizer is not None:
        return None if model is None else tokenbox.config.current().model_id(model), tokenizer
    config = tokenbox.config.current()
    from tokenbox.ctx.resolving import counter_of_settings  # it loads the policy

    counter = counter_of_settings(model, config, ask=ask)
    counts_texts = getattr(counter, "tokenizer", None) is not None  # else its files do, by their name
    return config.model_id(model), counter if counts_texts else config.tokenizer_for(model)


def note_misspelt(model: str | None, tokenizer: object) -> None:
    """Report a model that is unknown but spelt nearly as a known one: its tokens are estimated."""
    if model is None or tokenizer is not None:
        return
    if tokenbox.catalog.model(model, configured=tokenbox.config.current().catalog_limits()):
        return
    from tokenbox.catalog.names import bare_name

    near = next(iter(tokenbox.catalog.nearest(model, 1)), None)
    of_family = tokenbox.catalog.tokenizer_family(model) is not None
    if of_family and (near is None or bare_name(near) != bare_name(model)):
        return  # a model that is made from another, or a new one
    if near is not None:
        name = printable(model[:80])
        write_error(f"note: no model is called {name}, so its tokens are estimated. Did you mean {near}?\n")


def named_tokenizer(model: str | None, tokenizer: Counts | None, engine: Engine) -> Tokenizer:
    """Return the tokenizer for these options; the default is o200k_base."""
    name = DEFAULT_TOKENIZER if tokenizer is None and model is None else tokenizer
    if model is None and (registry.is_builtin(name) or str(name).startswith(registry.FILE_PREFIX)):
        return registry.get(str(name), engine=engine)
    from tokenbox.counters import text_counter

    return text_counter(model, name)
