"""A small model, the templates of the corpus and the turns that are executed, for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.llama import corpus
from tests.llama import model as models
from tokenbox.conversation.llama.fold import Fold


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
