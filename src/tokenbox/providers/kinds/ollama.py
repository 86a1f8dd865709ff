"""Ollama, which does not count tokens."""

from __future__ import annotations

import re
from typing import Final

from tokenbox.catalog import Figure
from tokenbox.providers.kinds.kind import Figures, Question, ServerKind, Sign, figure, register_kind
from tokenbox.providers.ollama_chat import DIALECT
from tokenbox.providers.shapes import at, items_at, text_at

# Ollama's default context window on a small machine.
DEFAULT_WINDOW: Final = 4096


def _loaded(body: object, model: str) -> Figures:
    """Read ``GET /api/ps``: the window of the loaded model."""
    named = {model, model if ":" in model else f"{model}:latest"}
    items = (
        item for item in items_at(body, "models") if {text_at(item, "name"), text_at(item, "model")} & named
    )
    return {"context_window": figure(next(items, None), "/api/ps", "context_length")}


def _shown(body: object, _model: str) -> Figures:
    """Read ``POST /api/show``: the trained window, and the setting of the Modelfile."""
    details = at(body, "model_info")
    names = sorted(details) if isinstance(details, dict) else []
    windows = [name for name in names if name.endswith(".context_length") and _positive(details[name])]
    trained = Figure(details[windows[0]], f"/api/show {windows[0]}") if windows else None
    stated = re.search(r"^num_ctx\s+(\d{1,12})\s*$", text_at(body, "parameters"), re.MULTILINE)
    if stated is not None:
        window = Figure(int(stated[1]), "/api/show num_ctx of the Modelfile")
    else:
        known = [DEFAULT_WINDOW] + ([trained.value] if trained is not None and trained.value else [])
        window = Figure(min(known), "Ollama's smallest default; set context_window for more")
    return {"context_window": window, "trained_window": trained}


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


register_kind(
    ServerKind(
        "ollama",
        DIALECT,
        chat_path="/api/chat",
        models_path="/api/tags",
        output_fields=("max_tokens",),
        questions=(
            Question(lambda _: "/api/ps", _loaded),
            Question(lambda _: "/api/show", _shown, body=lambda model: {"model": model}),
        ),
        signs=(
            Sign(owner="library"),
            Sign(path="/api/version", shows=lambda body: bool(text_at(body, "version"))),
        ),
    )
)
