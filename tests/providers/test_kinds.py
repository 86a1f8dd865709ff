"""Kinds of server: each is one file, also in somebody's package."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.providers.fake import serving
from tokenbox.config import load
from tokenbox.config.errors import ConfigError
from tokenbox.named_code import entry_points_of
from tokenbox.providers import BlockingProvider, EndpointMemory, InvalidTarget, Target, find_kind, kind_names
from tokenbox.providers.kinds.kind import KINDS, Question, ServerKind, register_kind
from tokenbox.providers.openai_chat import DIALECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KIND = """
from tokenbox.content.request import Api
from tokenbox.providers.kinds.kind import (
    ServerKind, Question, RequestCount, Sign, figure, number, register_kind, whole,
)
from tokenbox.providers.openai_chat import DIALECT
from tokenbox.providers.shapes import text_at

register_kind(ServerKind(
    "acme",
    DIALECT,
    chat_path="/acme/chat",
    counts={Api.CHAT: (RequestCount("/acme/count", whole, number("size")),)},
    questions=(
        Question(lambda _: "/acme/info", lambda body, _: {"context_window": figure(body, "/acme", "n")}),
    ),
    signs=(Sign(path="/acme/info", shows=lambda body: text_at(body, "by") == "acme"),),
))
"""
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
ROUTES = {
    "/acme/info": {"by": "acme", "n": 4096},
    "/acme/count": {"size": 12},
    "/acme/chat": ANSWER,
    "/v1/models": (404, {"error": "not here"}),
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package that offers a kind, and two that do not work."""
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tokenbox.providers]\nacme = acme_kind\nbroken = acme_lost\nsilent = acme_silent\n"
    )
    (tmp_path / "acme_kind.py").write_text(KIND)
    (tmp_path / "acme_silent.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points_of.cache_clear()  # a package is installed while this runs
    yield tmp_path
    entry_points_of.cache_clear()
    KINDS.pop("acme", None)
    sys.modules.pop("acme_kind", None)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("kind", ["acme", "auto"])
def test_a_kind_of_a_package_is_recognised_asked_counted_with_and_talked_to(kind: str) -> None:
    with serving(ROUTES) as server:
        target = Target(server.url, "m", kind=kind, use_tokenize_endpoint=True)
        with BlockingProvider(target, memory=EndpointMemory()) as provider:
            assert provider.kind() == "acme"
            window = provider.capabilities().context_window
            assert window is not None
            assert window.value == 4096
            count = provider.count([{"role": "user", "content": "hi"}])
            assert (count.value, count.exact) == (12, True)
            assert provider.chat([{"role": "user", "content": "hi"}]).text == "Hello"


def test_settings_take_the_kind_of_a_package(package: Path) -> None:
    folder = package / "project"
    (folder / ".tokenbox").mkdir(parents=True)
    settings = folder / ".tokenbox" / "config.toml"
    settings.write_text('[models.m]\nendpoint = "http://127.0.0.1:1"\nkind = "acme"\n')
    assert load(str(folder), {}).value(("models", "m", "kind")) == "acme"
    settings.write_text('[models.m]\nendpoint = "http://127.0.0.1:1"\nkind = "acne"\n')
    with pytest.raises(ConfigError):
        load(str(folder), {})


@pytest.mark.usefixtures("package")
def test_what_a_package_does_wrong_is_said() -> None:
    assert {"acme", "broken", "llama.cpp", "ollama"} <= set(kind_names())
    with pytest.raises(InvalidTarget, match="cannot be loaded"):
        find_kind("broken")
    with pytest.raises(InvalidTarget, match="does not register it"):
        find_kind("silent")
    with pytest.raises(InvalidTarget, match=r"There are: auto, .*llama\.cpp"):
        find_kind("lost")
    # Another server is still recognised.
    with serving({"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}) as server:
        target = Target(server.url, "m")
        assert BlockingProvider(target, memory=EndpointMemory()).kind() == "vllm"


def test_a_figure_of_an_unknown_name_is_named() -> None:
    question = Question(lambda _: "/acme/info", lambda *_: {"max_output": 7})
    register_kind(ServerKind("misspelt", DIALECT, questions=(question,)))
    try:
        with serving(ROUTES) as server:
            target = Target(server.url, "m", "misspelt")
            provider = BlockingProvider(target, memory=EndpointMemory())
            with pytest.raises(InvalidTarget, match="'max_output'; the figures are"):
                provider.capabilities()
            provider.close()
    finally:
        del KINDS["misspelt"]


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match=r"'llama\.cpp' already"):
        register_kind(ServerKind("llama.cpp", find_kind("llama.cpp").dialect))


def test_a_missing_model_is_no_missing_route_and_a_missing_route_is_asked_again_later() -> None:
    now = 0.0
    missing = (404, {"error": {"message": "The model `x` does not exist.", "code": 404}})
    routes: dict[str, object] = {"/v1/chat/completions/input_tokens": missing}
    with serving(routes) as server:
        memory = EndpointMemory(clock=lambda: now)
        provider = BlockingProvider(
            Target(server.url, "x", kind="openai-compatible", use_tokenize_endpoint=True), memory=memory
        )
        hello = [{"role": "user", "content": "hi"}]
        assert provider.count(hello).exact is False
        routes["/v1/chat/completions/input_tokens"] = (200, {"input_tokens": 7})
        assert provider.count(hello).value == 7
        memory.forget()
        routes["/v1/chat/completions/input_tokens"] = (404, {"detail": "Not Found"})
        provider.count(hello)
        routes["/v1/chat/completions/input_tokens"] = (200, {"input_tokens": 8})
        assert provider.count(hello).exact is False
        now += 3600.0
        assert provider.count(hello).value == 8
