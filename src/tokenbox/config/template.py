"""The ``.tokenbox`` folder that ``tokenbox init`` creates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.config.errors import ConfigCode, ConfigError
from tokenbox.config.places import FILE, FOLDER
from tokenbox.files import OWN, replace

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = """\
# Settings of tokenbox for this project. `tokenbox config` shows every one, with where it came from.
# Flags and TOKENBOX_... variables come before this file, it before pyproject.toml and the user's own file.

# model = "gpt-5"              # where none is named: an id, or a NAME of [models.NAME]

[policy]
# max_ctx = 128_000            # input and output together; else the model's own window
# reserve_out = 4_000          # kept free for the answer
# headroom = "0.05"            # share of the window kept free for safety
# strategy = "box"             # box, ladder or window
# uncertain = "margin"         # an estimate that fits by its total, not by its bound: margin, bound or allow

# [models.local]               # a server, and what is particular to its model
# endpoint = "http://localhost:8080"
# kind = "llama.cpp"
# key_env = "LOCAL_API_KEY"    # the variable that has the key; a key itself never stands here
# tokenizer = "llama3-bpe"

# [tokenizers]
# baselines = ["gpt-bpe"]      # tokenizers of the package, off until they are named here
# llama4-bpe = "vocabularies/llama4.json"

# [catalog."gpt-5"]            # where a figure of `tokenbox models` is not yours
# max_input_tokens = 200_000
# price_input = "1.25"         # dollars per million tokens
"""
IGNORED = """\
# What is made, not written.
state.json
state.lock
proof/
*.sqlite*
"""


def init(folder: Path, *, force: bool = False) -> list[Path]:
    """Write ``.tokenbox/config.toml`` and ``.tokenbox/.gitignore`` in ``folder``, and return their paths.

    An existing ``.gitignore`` is kept. Raises :class:`ConfigError`, also for an existing config without
    ``force``.
    """
    config = folder / FOLDER / FILE
    ignored = folder / FOLDER / ".gitignore"
    try:
        if (config.exists() or config.is_symlink()) and not force:
            raise ConfigError(
                f"{config} already exists. To replace it: tokenbox init --force",
                code=ConfigCode.EXISTS,
            )
        config.parent.mkdir(exist_ok=True)
        written = [config]
        replace(config, TEMPLATE.encode(), new=OWN)
        config.chmod(0o644)
        if not ignored.exists():
            replace(ignored, IGNORED.encode(), new=OWN)
            ignored.chmod(0o644)
            written.append(ignored)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise ConfigError(
            f"{error.filename or config} cannot be written: {said}.", code=ConfigCode.NOT_WRITTEN
        ) from None
    return written
