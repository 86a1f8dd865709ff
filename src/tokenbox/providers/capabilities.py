"""What a server says a model can hold: the window, the most input, the most output, each with its source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tokenbox.catalog import Figure, Limits
from tokenbox.catalog import model as catalog_model
from tokenbox.providers.errors import ModelNotFound, ProviderError
from tokenbox.providers.kinds import Kind
from tokenbox.providers.memory import Outcome, Reply
from tokenbox.providers.shapes import at, count_at, items_at, text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenbox.providers.server import Server
    from tokenbox.providers.target import Target

# A context window that Ollama gives to a model on a small machine if nobody says otherwise.
OLLAMA_DEFAULT_WINDOW: Final = 4096


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What is known of a model on a server. A figure that nobody has is None: unknown, and never 0.

    ``context_window`` is what one request may hold: per slot, as the model is loaded. ``trained_window`` is
    what the model was made for. ``discovered`` is what the server itself said; the rest is the catalog's.
    ``complete`` is False if a question could not be asked now, so that it will be asked again.
    """

    kind: Kind
    model: str
    context_window: Figure | None = None
    max_input_tokens: Figure | None = None
    max_output_tokens: Figure | None = None
    trained_window: Figure | None = None
    slots: int | None = None
    discovered: Limits = field(default_factory=Limits)
    complete: bool = True

    def to_dict(self) -> dict[str, object]:
        figures = ("context_window", "max_input_tokens", "max_output_tokens", "trained_window")
        stated = {name: getattr(self, name) for name in figures}
        return {
            "kind": self.kind.value,
            "model": self.model,
            **{name: None if figure is None else figure.to_dict() for name, figure in stated.items()},
            "slots": self.slots,
            "complete": self.complete,
        }


@dataclass(frozen=True, slots=True)
class Question:
    """A path to ask, and what its answer says: figures by name (see ``FIGURES``). ``body`` None: a GET."""

    path: Callable[[str], str]
    read: Callable[[object, str], Mapping[str, Figure | int | None]]
    body: Callable[[str], object] | None = None


def of_model(items: list[Any], model: str, *names: str) -> object:
    """The item that is ``model`` by one of ``names``; the only item if there is just one; else None."""
    mine = (item for item in items if any(text_at(item, name) == model for name in names))
    return next(mine, items[0] if len(items) == 1 else None)


def _first(item: object, path: str, *names: str) -> Figure | None:
    """The first of ``names`` that ``item`` has a positive number for."""
    for name in names:
        value = count_at(item, name)
        if value:
            return Figure(value, f"{path} {name}")
    return None


def _models(body: object, model: str) -> dict[str, Figure | int | None]:
    """``GET /v1/models``, with what one server or another adds to OpenAI's shape."""
    item = of_model(items_at(body, "data"), model, "id", "root")
    windows = ("meta.n_ctx", "max_model_len", "context_length", "context_window", "max_context_length")
    outputs = ("top_provider.max_completion_tokens", "max_completion_tokens", "max_output_tokens")
    return {
        "context_window": _first(item, "/v1/models", *windows),
        "max_output_tokens": _first(item, "/v1/models", *outputs),
        "trained_window": _first(item, "/v1/models", "meta.n_ctx_train"),
    }


def _props(body: object, _model: str) -> dict[str, Figure | int | None]:
    """``GET /props`` of llama.cpp. Its ``n_ctx`` is that of a slot, not of all together."""
    return {
        "context_window": _first(body, "/props", "default_generation_settings.n_ctx"),
        "slots": count_at(body, "total_slots"),
    }


def _info(body: object, _model: str) -> dict[str, Figure | int | None]:
    """``GET /info`` of TGI."""
    return {
        "context_window": _first(body, "/info", "max_total_tokens"),
        "max_input_tokens": _first(body, "/info", "max_input_tokens", "max_input_length"),
    }


def _loaded(body: object, model: str) -> dict[str, Figure | int | None]:
    """``GET /api/ps`` of Ollama: the window as the model is loaded now, if it is."""
    named = {model, model if ":" in model else f"{model}:latest"}
    items = (
        item for item in items_at(body, "models") if {text_at(item, "name"), text_at(item, "model")} & named
    )
    return {"context_window": _first(next(items, None), "/api/ps", "context_length")}


def _shown(body: object, _model: str) -> dict[str, Figure | int | None]:
    """``POST /api/show`` of Ollama: what the model was made for, and what its Modelfile sets."""
    details = at(body, "model_info")
    names = (
        sorted(name for name in details if name.endswith(".context_length"))
        if isinstance(details, dict)
        else []
    )
    trained = next(
        (Figure(details[name], f"/api/show {name}") for name in names if _positive(details[name])), None
    )
    stated = re.search(r"^num_ctx\s+(\d{1,12})\s*$", text_at(body, "parameters"), re.MULTILINE)
    if stated is not None:
        window = Figure(int(stated[1]), "/api/show num_ctx of the Modelfile")
    else:
        known = (
            [OLLAMA_DEFAULT_WINDOW]
            if trained is None or trained.value is None
            else [OLLAMA_DEFAULT_WINDOW, trained.value]
        )
        window = Figure(min(known), "Ollama's smallest default; state context_window for more")
    return {"context_window": window, "trained_window": trained}


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _lmstudio(body: object, model: str) -> dict[str, Figure | int | None]:
    """``GET /api/v1/models`` of LM Studio."""
    path = "/api/v1/models"
    items = items_at(body, "models")
    loaded = [(item, instance) for item in items for instance in items_at(item, "loaded_instances")]
    mine = ((item, instance) for item, instance in loaded if text_at(instance, "id") == model)
    item = of_model(items, model, "key")
    item, instance = next(mine, (item, at(item, "loaded_instances.0")))
    return {
        "context_window": _first(instance, path, "config.context_length"),
        "trained_window": _first(item, path, "max_context_length"),
    }


def _lmstudio_before(body: object, model: str) -> dict[str, Figure | int | None]:
    """``GET /api/v0/models`` of LM Studio."""
    item, path = of_model(items_at(body, "data"), model, "id"), "/api/v0/models"
    return {
        "context_window": _first(item, path, "loaded_context_length"),
        "trained_window": _first(item, path, "max_context_length"),
    }


def _anthropic(body: object, _model: str) -> dict[str, Figure | int | None]:
    """``GET /v1/models/{id}`` of Anthropic."""
    return {
        "max_input_tokens": _first(body, "/v1/models", "max_input_tokens"),
        "max_output_tokens": _first(body, "/v1/models", "max_tokens"),
    }


_MODELS: Final = Question(lambda _: "/v1/models", _models)

# In this order; the first that has a figure is believed.
QUESTIONS: Final[Mapping[Kind, tuple[Question, ...]]] = {
    Kind.LLAMA_CPP: (_MODELS, Question(lambda _: "/props", _props)),
    Kind.VLLM: (_MODELS,),
    Kind.SGLANG: (_MODELS,),
    Kind.TGI: (Question(lambda _: "/info", _info),),
    Kind.OLLAMA: (
        Question(lambda _: "/api/ps", _loaded),
        Question(lambda _: "/api/show", _shown, body=lambda model: {"model": model}),
    ),
    Kind.LM_STUDIO: (
        Question(lambda _: "/api/v1/models", _lmstudio),
        Question(lambda _: "/api/v0/models", _lmstudio_before),
    ),
    Kind.OPENAI: (),
    Kind.ANTHROPIC: (Question(lambda model: f"/v1/models/{quote(model, safe='')}", _anthropic),),
    Kind.OPENAI_COMPATIBLE: (_MODELS,),
}

# Whose models are those of the catalog. What someone runs at home under the same name may hold less.
_IN_CATALOG: Final = {Kind.OPENAI, Kind.ANTHROPIC, Kind.OPENAI_COMPATIBLE}
_UNSUPPORTED: Final = {404, 405, 501}


async def discover(server: Server, kind: Kind) -> Reply[Capabilities]:
    """What the server says; NOT_NOW if a question could not be asked now."""
    model = server.target.model
    found: dict[str, Any] = {}
    complete = True
    for question in QUESTIONS[kind]:
        try:
            answer = await server.probe(
                kind, question.path(model), None if question.body is None else question.body(model)
            )
        except ProviderError as error:
            complete = complete and not error.transient
            continue
        if answer.status == 200:  # noqa: PLR2004  # HTTP
            said = question.read(answer.body, model)
            found = {name: figure for name, figure in said.items() if figure is not None} | found
        else:
            # A model that is not there yet may come.
            missing = isinstance(server.refusal(answer, question.path(model)), ModelNotFound)
            complete = complete and answer.status in _UNSUPPORTED and not missing
    trained, slots = found.pop("trained_window", None), found.pop("slots", None)
    known = Capabilities(
        kind, model, trained_window=trained, slots=slots, discovered=Limits(**found), complete=complete
    )
    return Reply(Outcome.ANSWERED if complete else Outcome.NOT_NOW, known)


def settled(known: Capabilities, target: Target) -> Capabilities:
    """The figures that count: the user's, else the server's, else the catalog's."""
    model, said = target.model, known.discovered
    stated = None if target.context_window is None else Figure(target.context_window, "configured")
    if known.kind not in _IN_CATALOG:
        return replace(
            known,
            context_window=said.context_window if stated is None else stated,
            max_input_tokens=said.max_input_tokens,
            max_output_tokens=said.max_output_tokens,
        )
    info = catalog_model(model, configured={model: Limits(stated)}, discovered={model: said})
    if info is None:
        return known
    return replace(
        known,
        context_window=info.context_window,
        max_input_tokens=info.max_input_tokens,
        max_output_tokens=info.max_output_tokens,
    )
