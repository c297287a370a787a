"""Text that comes from data, such as feature names, made fit to be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""`text` on one line, with control and invisible characters written out.

    A name may hold line breaks, terminal escapes or marks that reverse the direction of writing; none
    of them may act on the terminal or the page that shows it.

    Examples
    --------
    >>> print(printable("age\n\x1b[31mred"))
    age\n\x1b[31mred
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
