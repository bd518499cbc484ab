"""A one-line text editor: the text, the position of the cursor, and what each key does."""

_WORD_ENDS = " \t"
MAX_LENGTH = 1000


class LineEditor:
    """Text that is being typed."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.at = len(text)

    def set(self, text: str) -> None:
        """Replace the text; the cursor goes to its end."""
        self.text = text[:MAX_LENGTH]
        self.at = len(self.text)

    def insert(self, typed: str) -> None:
        """Insert what was typed or pasted; characters that cannot be shown become blanks."""
        shown = "".join([one if one.isprintable() else " " for one in typed])
        self.text = (self.text[: self.at] + shown + self.text[self.at :])[:MAX_LENGTH]
        self.at = min(len(self.text), self.at + len(shown))

    def press(self, key: str) -> bool:
        """Handle an editing key; return whether it is one."""
        before, after = self.text[: self.at], self.text[self.at :]
        match key:
            case "backspace":
                self.text, self.at = before[:-1] + after, max(0, self.at - 1)
            case "delete":
                self.text = before + after[1:]
            case "left" | "ctrl+b":
                self.at = max(0, self.at - 1)
            case "right" | "ctrl+f":
                self.at = min(len(self.text), self.at + 1)
            case "home" | "ctrl+a":
                self.at = 0
            case "end" | "ctrl+e":
                self.at = len(self.text)
            case "ctrl+u":
                self.text, self.at = after, 0
            case "ctrl+k":
                self.text = before
            case "ctrl+w":
                kept = before.rstrip(_WORD_ENDS)
                kept = kept[: max(kept.rfind(end) for end in _WORD_ENDS) + 1]
                self.text, self.at = kept + after, len(kept)
            case _:
                return False
        return True
