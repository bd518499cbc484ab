"""Typing of the filter: editing, completion, and its effect on what is shown."""

import re

from fleet_smi.model.filter import FILTER_KEYS
from fleet_smi.model.fleet import STATES
from fleet_smi.terminal.top import completion
from fleet_smi.terminal.top.completion import Suggestion
from fleet_smi.terminal.top.line_editor import LineEditor
from fleet_smi.terminal.top.state import ScreenState, TopData
from fleet_smi.terminal.top.view.filter_line import MAX_SUGGESTIONS

_FREE = "free"
NO_SUGGESTION = -1
_NAME_BEGUN = re.compile(r"-?(?:user|node|site|label|driver|uuid):[^*,\"]+")


def start_filter(state: ScreenState) -> None:
    """Begin to type, after the filter that is in force."""
    text = state.filter_text
    state.editor = LineEditor(f"{text} " if text else "")
    state.suggestion_at = NO_SUGGESTION
    if state.view not in ("fleet", "history"):
        state.view = "fleet"


def edit_filter(state: ScreenState, data: TopData, key: str, character: str | None) -> None:
    """Handle a key while the filter is typed; it takes effect at once."""
    editor = state.editor
    if editor is None:
        return
    found = completion.suggest(data.words, editor.text, MAX_SUGGESTIONS)
    if key == "escape":
        state.editor = None
        set_filter(state, data, "")
        return
    if key in ("up", "down"):
        step = 1 if key == "down" else -1
        state.suggestion_at = max(NO_SUGGESTION, min(len(found) - 1, state.suggestion_at + step))
        return
    if key == "tab" or (key == "enter" and state.suggestion_at > NO_SUGGESTION):
        _complete(state, editor, found)
    elif key == "enter":
        state.editor = None
    elif not editor.press(key) and character and character.isprintable():
        editor.insert(character)
        state.suggestion_at = NO_SUGGESTION
    apply_typed(state, data, editor)


def apply_typed(state: ScreenState, data: TopData, editor: LineEditor) -> None:
    """Show what matches the text so far, without a word that is only begun."""
    text, typed = editor.text.strip(), completion.last_word(editor.text)
    if state.editor is not None and _is_begun(typed.removeprefix("-").lower()):
        text = editor.text[: len(editor.text) - len(typed)].strip()
    elif state.editor is not None and _NAME_BEGUN.fullmatch(typed):
        text += "*"  # a name is matched as a whole, and this one is not finished
    set_filter(state, data, text)


def _is_begun(word: str) -> bool:
    """Whether a word is the beginning of a state, or of a key without its value."""
    whole = [*STATES, *[f"{key}:" for key in FILTER_KEYS], *[f"{key}>" for key in FILTER_KEYS]]
    keyed = [each for each in whole if each.startswith(word) and each != word]
    return bool(word) and (bool(keyed) or word in whole[len(STATES) :])


def _complete(state: ScreenState, editor: LineEditor, found: list[Suggestion]) -> None:
    if found:
        chosen = found[max(0, min(len(found) - 1, state.suggestion_at))]
        editor.set(completion.complete(editor.text, chosen.word))
    state.suggestion_at = NO_SUGGESTION


def set_filter(state: ScreenState, data: TopData, text: str) -> None:
    """Show what matches this text."""
    state.filter_text = text
    data.arrangement.set_filter(text)
    data.arrangement.update(data.fleet)


def toggle_free(state: ScreenState, data: TopData) -> None:
    """Add the word for free GPUs to the filter, or remove it."""
    words = state.filter_text.split()
    if _FREE in words:
        words.remove(_FREE)
    else:
        words.insert(0, _FREE)
    set_filter(state, data, " ".join(words))
