"""The line editor of a terminal: history, completion, multi-line input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

from tokenbox.errors import plural
from tokenbox.files import OWN, open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

    Choice = tuple[str, str]  # a completion and its description

CONTINUES: Final = "\\"
# A paste of more lines or characters than this is shown as a placeholder.
FOLDED_LINES: Final = 8
FOLDED_CHARACTERS: Final = 1_000


class Editor:
    """Reads lines. ``complete(words)`` returns the completions of the last word of a ``:`` line."""

    def __init__(
        self,
        history: Path | None,
        complete: Callable[[Sequence[str]], Iterable[Choice]],
        folder: Callable[[], str],
        hide: Callable[[str], str],
    ) -> None:
        self._pastes = Pastes()
        self._session: PromptSession[str] = PromptSession(
            history=None if history is None else open_history(history, self._pastes, hide),
            completer=_Completer(complete, folder),
            complete_while_typing=False,
            key_bindings=_keys(self._pastes),
            multiline=False,
            prompt_continuation=lambda _width, _line, is_wrapped: "" if is_wrapped else "... ",
            enable_open_in_editor=True,
            enable_suspend=True,
        )

    def read(self, prompt: str, begun: str = "") -> str:
        """Read one input that starts with ``begun``. If ``begun`` ends with a newline, it is the input.

        Raises ``EOFError`` on Ctrl-D and ``KeyboardInterrupt`` on Ctrl-C.
        """
        line = begun.rstrip("\r\n")
        typed = self._session.prompt(ANSI(prompt), default=line, accept_default=line != begun)
        return self._pastes.unfolded(typed)


class Pastes:
    """Long pastes, each shown as a placeholder in the input."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return a short paste itself, and a placeholder for a long one."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= FOLDED_LINES and len(text) <= FOLDED_CHARACTERS:
            return text
        placeholder = (
            f"[paste {len(self._texts) + 1}: {plural(lines, 'line')}, {plural(len(text), 'character')}]"
        )
        self._texts[placeholder] = text
        return placeholder

    def unfolded(self, line: str) -> str:
        for placeholder, text in self._texts.items():
            line = line.replace(placeholder, text)
        return line


def _keys(pastes: Pastes) -> KeyBindings:
    keys = KeyBindings()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.folded(event.data))

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith(CONTINUES):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return keys


class _Completer(Completer):
    def __init__(
        self, complete: Callable[[Sequence[str]], Iterable[Choice]], folder: Callable[[], str]
    ) -> None:
        self._complete = complete
        self._paths = PathCompleter(expanduser=True, get_paths=lambda: [folder()])

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        word = text.split(" ")[-1]
        if text.startswith((":file ", ":export ")):
            yield from self._paths.get_completions(Document(word), complete_event)
        elif text.startswith(":"):
            for choice, about in self._complete(text.split(" ")):
                if choice.startswith(word):
                    yield Completion(choice, -len(word), display_meta=about)
        elif word.startswith("@"):
            yield from self._paths.get_completions(Document(word[1:]), complete_event)
        elif text.startswith("!"):
            path = word.removeprefix("!") if len(word) == len(text) else word
            yield from self._paths.get_completions(Document(path), complete_event)


class _History(FileHistory):
    """A history without keys and, as in other shells, without lines that begin with a blank.

    Lines with a long paste are in the history of this process only, whose placeholders no other one knows.
    """

    def __init__(self, path: Path, pastes: Pastes, hide: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._pastes, self._hide = pastes, hide

    def append_string(self, string: str) -> None:
        if not string.startswith(" "):
            super().append_string(self._hide(string))

    def store_string(self, string: str) -> None:
        if self._pastes.unfolded(string) == string:
            super().store_string(string)


def open_history(path: Path, pastes: Pastes, hide: Callable[[str], str]) -> History | None:
    """Open the history file, which only its owner can read. None if it cannot be created."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        open_regular(path, "ab", new=OWN).close()  # a pipe would block the editor
    except OSError:
        return None
    return _History(path, pastes, hide)
