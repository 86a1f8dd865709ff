"""LM Studio."""

from __future__ import annotations

from tokenbox.providers.kinds.kind import Figures, Question, ServerKind, Sign, figure, of_model, register_kind
from tokenbox.providers.openai_chat import DIALECT
from tokenbox.providers.shapes import at, items_at, text_at

_NOW, _BEFORE = "/api/v1/models", "/api/v0/models"


def _models(body: object, model: str) -> Figures:
    """Read ``GET /api/v1/models``."""
    items = items_at(body, "models")
    loaded = [(item, instance) for item in items for instance in items_at(item, "loaded_instances")]
    mine = ((item, instance) for item, instance in loaded if text_at(instance, "id") == model)
    item = of_model(items, model, "key")
    item, instance = next(mine, (item, at(item, "loaded_instances.0")))
    return {
        "context_window": figure(instance, _NOW, "config.context_length"),
        "trained_window": figure(item, _NOW, "max_context_length"),
    }


def _models_before(body: object, model: str) -> Figures:
    """Read ``GET /api/v0/models``."""
    item = of_model(items_at(body, "data"), model, "id")
    return {
        "context_window": figure(item, _BEFORE, "loaded_context_length"),
        "trained_window": figure(item, _BEFORE, "max_context_length"),
    }


register_kind(
    ServerKind(
        "lmstudio",
        DIALECT,
        questions=(Question(lambda _: _NOW, _models), Question(lambda _: _BEFORE, _models_before)),
        signs=(
            Sign(path=_NOW, shows=lambda body: at(body, "models.0.loaded_instances") is not None),
            Sign(path=_BEFORE, shows=lambda body: at(body, "data.0.max_context_length") is not None),
        ),
    )
)
