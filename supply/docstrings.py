"""What the reference of the site needs to read the docstrings, as an extension of Griffe."""

from __future__ import annotations

import re

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)


class Examples(Extension):
    """Docstrings say `Example:`, and the reference takes only `Examples:` for a session."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Change the heading."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"\1Examples:", obj.docstring.value)
