"""The commands of ``tokenbox``, in the groups and with the sentences of ``tokenbox --help``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Start here": {
        "count": "Count the tokens of files, or of chats.",
        "fit": "Make a chat fit into a token budget.",
        "pack": "Pack files and folders into a token budget.",
        "layout": "Compile a layout document into its token budget.",
        "enforce": "Say whether a request fits a model, before you send it.",
        "shell": "Talk to a model, with commands beside it.",
        "serve": "Run the gateway in front of LLM servers.",
        "mcp": "Serve files within token budgets to agents (MCP).",
    },
    "Look and compare": {
        "ask": "Ask a model one question.",
        "estimate": "Count what would be sent to a model.",
        "plan": "Plan what of a request fits a model.",
        "batch": "Compile many rows: count, fit, pack and more.",
        "diff": "Show what changes between two layouts.",
        "inspect": "Show what a request is made of, as one offline page.",
        "check": "Check the token budgets that a project declares.",
        "cost": "Show what your calls of models used and cost.",
        "cache": "Show what breaks a prompt cache, and where breakpoints pay.",
        "tools": "Show what tool schemas cost, and make them shorter.",
    },
    "What is there": {
        "doctor": "Show what is installed, what counts exactly, what is missing.",
        "models": "Show what models hold and cost, with sources.",
        "tokenizers": "List the tokenizers.",
        "lenses": "List the lenses: the compression strategies.",
        "schema": "Print the JSON Schema of a document or of a result.",
    },
    "Set up": {
        "init": "Write .tokenbox/config.toml, with comments.",
        "config": "Show or change settings.",
        "gateway": "Make keys, users and teams of the gateway; ask how one is.",
    },
    "Packs and proofs": {
        "lcp": "Read, check, render and write LCP/BCP packs.",
        "proof": "List, show, verify, replay and sign proof bundles.",
    },
}

COMMANDS: Final[Mapping[str, str]] = {
    name: about for commands in GROUPS.values() for name, about in commands.items()
}
"""Each command with its sentence, in the order of the help."""

USAGE: Final = """\
Usage: tokenbox COMMAND [OPTIONS] [ARGUMENTS]

  Compile LLM context into token budgets: exact, deterministic, explained.

  Example: tokenbox count README.md
"""

OPTIONS: Final = {
    "tokenbox COMMAND --help": "What a command does, its options, an example.",
    "--version": "Print the version.",
    "--install-completion": "Install completion for your shell.",
}

STATUS: Final = """\
Exit status: 0 done, 1 a difference or a bug, 2 bad usage or input,
3 does not fit, 4 refused by the policy, 5 rows of a batch failed,
130 interrupted.
"""


def help_text(*, bold: bool) -> str:
    """What ``tokenbox --help`` prints. No line is wider than 80 columns, and no command is loaded for it."""
    begin, end = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
    size = max(map(len, COMMANDS))
    parts = [USAGE]
    for group, commands in GROUPS.items():
        rows = "".join(f"  {name:<{size}}  {about}\n" for name, about in commands.items())
        parts.append(f"{begin}{group}:{end}\n{rows}")
    wide = max(map(len, OPTIONS))
    rows = "".join(f"  {name:<{wide}}  {about}\n" for name, about in OPTIONS.items())
    parts += [f"{begin}More:{end}\n{rows}", STATUS]
    return "\n".join(parts)
