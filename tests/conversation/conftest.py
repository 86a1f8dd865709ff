"""A small model for the tests of conversations."""

from __future__ import annotations

import pytest

from tests.llama import model as models


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> models.Model:
    return models.write(tmp_path_factory.mktemp("model"), models.TOOLS)
