"""The tokenizer: quoted words come back, and punctuation inside them separates nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import QuestionError
from sfumato.questions.language import quoted, split, unquoted

WORDS = st.text(st.sampled_from("ab,=|.:'\" "), max_size=8)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from([",", "=", "|", ".."]))
def test_quoted_words_come_back(words: list[str], separator: str) -> None:
    text = separator.join(quoted(word) for word in words)
    assert [unquoted(piece) for piece in split(text, separator)] == words


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_after_a_word_and_a_space_a_quote_opens_only_if_asked(words: list[str]) -> None:
    text = "categories " + "|".join(quoted(word, ",:|") for word in words)
    first, *others = split(text, "|", after_space=True)
    found = [first.removeprefix("categories "), *others]
    assert [unquoted(piece) for piece in found] == words


def test_an_apostrophe_is_no_quote() -> None:
    assert split("it's, o'clock", ",") == ["it's", " o'clock"]
    assert split("rock 'n, roll", ",") == ["rock 'n", " roll"]
    with pytest.raises(QuestionError, match="one ' in \"rock 'n, roll\" is not"):
        split("rock 'n, roll", ",", after_space=True)


@pytest.mark.parametrize("text", ["'a'b", "'a", "'", "'a'b'"])
def test_a_word_ends_at_its_quote(text: str) -> None:
    with pytest.raises(QuestionError, match="must end at its quote"):
        unquoted(text)
