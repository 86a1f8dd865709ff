"""The corpus: every chat template of llama.cpp's sources, every shape of request, beside the real server."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.llama import corpus
from tests.llama.corpus import EQUAL, Compared, NotFetched
from tests.llama.shapes import SHAPES
from tokenbox.conversation.llama.verified import is_verified

if TYPE_CHECKING:
    from collections.abc import Mapping

GGUF = "gguf gpt2 gpt-2"
# Of each way that a template goes in the server: its automatic parser, and families of it.
FEW = (
    "Qwen-Qwen3-0.6B",
    "meta-llama-Llama-3.1-8B-Instruct",
    "openai-gpt-oss-120b",
    "Kimi-K2-Thinking",
)


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> Mapping[str, str]:
    assert request.config.cache is not None
    try:
        return corpus.templates(Path(request.config.cache.mkdir("llama-templates")))
    except NotFetched as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def compared(sources: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[Compared]:
    """Every template with a sixth of the shapes, another sixth for the next: `make bench` has all of each."""
    folder = tmp_path_factory.mktemp("templates")
    return [
        corpus.compare(
            name, source, folder / str(place), dict(islice(SHAPES.items(), place % 6, None, 6)), trust=False
        )
        for place, (name, source) in enumerate(sources.items())
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_template_counts_as_the_server(sources: Mapping[str, str], name: str, tmp_path: Path) -> None:
    found = corpus.compare(name, sources[name], tmp_path, trust=False)
    taken = found.outcomes.total() - found.outcomes["both refuse"]
    assert found.proven, found.notes
    assert not found.outcomes["bound passed"], found.notes
    assert found.equal >= 0.9 * taken


@pytest.mark.slow
def test_no_count_is_marked_exact_and_wrong(compared: list[Compared]) -> None:
    wrong = [f"{found.name}: {note}" for found in compared for note in found.notes]
    assert all(found.proven for found in compared), wrong
    assert not sum(found.outcomes["bound passed"] for found in compared), wrong
    taken = sum(found.outcomes.total() - found.outcomes["both refuse"] for found in compared)
    assert sum(found.equal for found in compared) >= 0.9 * taken
    assert len(compared) >= 70


@pytest.mark.slow
def test_the_table_of_proofs_is_of_these_templates(sources: Mapping[str, str]) -> None:
    assert all(is_verified("llama.cpp", source, GGUF) for source in sources.values())
    assert sum(is_verified("transformers", source, "json 1") for source in sources.values()) >= 60
    assert not any(is_verified("transformers", source, GGUF) for source in sources.values())


@pytest.mark.slow
def test_what_is_not_in_the_table_is_counted_and_not_exact(
    sources: Mapping[str, str], tmp_path: Path
) -> None:
    changed = sources["Qwen-Qwen3-0.6B"].replace("<|im_start|>", "<|turn|>")
    assert not is_verified("llama.cpp", changed, GGUF)
    assert not is_verified("llama.cpp", sources["Qwen-Qwen3-0.6B"], "gguf gpt2 unheard-of")
    found = corpus.compare("changed", changed, tmp_path, trust=False)
    assert not found.outcomes[EQUAL]
    assert not found.outcomes["refused"]
    assert not found.outcomes["bound passed"], found.notes
