"""The tokenizer of every small language here: questions, axes on the command line, shares.

Words are separated by punctuation such as ``,`` ``=`` ``|`` ``:`` and ``..``. A word that contains
some is put in single or double quotes; a quote inside it is doubled.
"""

from __future__ import annotations

from sfumato.errors import QuestionError

QUOTES = "'\""


def split(text: str, separator: str, *, after_space: bool = False) -> list[str]:
    """The pieces of a text between separators, except inside quotes.

    Args:
        text: What is cut.
        separator: What stands between the pieces, such as "," or "..".
        after_space: Whether a quote may open after white space, as in "categories 'a, b'|c". It
            always may at the beginning and after punctuation; elsewhere it is an apostrophe.

    Raises:
        QuestionError: If a quote is not closed.

    Example:
        >>> split("region='a, b'|c, age=18", ",")
        ["region='a, b'|c", ' age=18']
    """
    pieces, start, place, quote = [], 0, 0, ""
    while place < len(text):
        letter = text[place]
        if quote and text.startswith(quote * 2, place):
            place += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES and _opens(text[start:place], after_space):
            quote = letter
        elif text.startswith(separator, place):
            pieces.append(text[start:place])
            place += len(separator)
            start = place
            continue
        place += 1
    if quote:
        raise QuestionError(f"a quote must be closed, and one {quote} in {text.strip()!r} is not")
    return [*pieces, text[start:]]


def _opens(before: str, after_space: bool) -> bool:
    """Whether a quote after this text opens a word, rather than being an apostrophe."""
    head = before.rstrip()
    if not head or (after_space and head != before):
        return True
    return head[-1] in ",=|:" or head.endswith("..")


def unquoted(piece: str) -> str:
    """A word without the white space around it and without its quotes.

    Raises:
        QuestionError: If something follows the closing quote.

    Example:
        >>> unquoted(" 'rock ''n'' roll' ")
        "rock 'n' roll"
    """
    word = piece.strip()
    if not word or word[0] not in QUOTES:
        return word
    quote, inner = word[0], word[1:-1]
    if len(word) < 2 or word[-1] != quote or quote in inner.replace(quote * 2, ""):
        raise QuestionError(
            f"a quoted word must end at its quote, got {word!r}; double a quote inside the word"
        )
    return inner.replace(quote * 2, quote)


def quoted(word: str, special: str = ",=|.") -> str:
    """A word in quotes if it needs them, so that `unquoted` gives it back.

    Args:
        word: A name or label.
        special: The punctuation of the language it is for.

    Example:
        >>> quoted("north"), quoted("a, b"), quoted("it's")
        ('north', "'a, b'", "'it''s'")
    """
    if word and word == word.strip() and not set(word) & {*special, *QUOTES}:
        return word
    return "'" + word.replace("'", "''") + "'"
