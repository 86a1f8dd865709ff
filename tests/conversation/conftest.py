"""A small model, the templates of the corpus and the turns that are executed, for these tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.llama import corpus
from tests.llama import model as models
from tokenbox.conversation import chat_format
from tokenbox.conversation.llama.fold import Fold
from tokenbox.tokenizers.files import open_chat_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

_opened_once = cache(open_chat_vocabulary)


@pytest.fixture(autouse=True, scope="module")
def _each_vocabulary_is_opened_once() -> Iterator[None]:
    """Hundreds of templates are tried with the same model, which takes longer to open than to count with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_format, "open_chat_vocabulary", _opened_once)
        yield


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> models.Model:
    return models.write(tmp_path_factory.mktemp("model"), models.TOOLS)


@pytest.fixture
def templates(request: pytest.FixtureRequest) -> dict[str, str]:
    """The templates of the corpus by name; without them the test is skipped."""
    assert request.config.cache is not None
    try:
        return corpus.templates(Path(request.config.cache.mkdir("llama-templates")))
    except corpus.NotFetched as error:
        pytest.skip(str(error))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places of the turns that are executed, not applied from a record, as they come."""
    places: list[int] = []
    take = Fold.take

    def counting(self: Any, scope: Any, at: int, items: Any, out: Any) -> Any:  # noqa: ANN401  # as it is
        places.append(at)
        return take(self, scope, at, items, out)

    monkeypatch.setattr(Fold, "take", counting)
    return places
