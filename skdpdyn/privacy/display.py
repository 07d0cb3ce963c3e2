"""Show numbers in notebooks the way scikit-learn shows estimators: large first, details folded."""

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skdpdyn.exceptions import optional

# scikit-learn's names of colours, and what they fall back to: the theme of a notebook or of a
# gallery where there is one, then that of the reader's system. Shades are made of the text's
# colour, so that they suit both.
_STYLE = """
.skdpdyn-display {
  --skdpdyn-text: var(--sg-text-color, var(--theme-code-foreground,
    var(--jp-content-font-color1, #000)));
  --skdpdyn-background: var(--sg-background-color, var(--theme-background,
    var(--jp-layout-color0, #fff)));
  color: var(--sklearn-color-text-on-default-background, var(--skdpdyn-text));
  background: var(--sklearn-color-background, var(--skdpdyn-background));
  --skdpdyn-shade: color-mix(in srgb, currentColor 7%, transparent);
  --skdpdyn-line: color-mix(in srgb, currentColor 25%, transparent);
  --skdpdyn-warning: #c62828;
  font-family: monospace; font-size: 14px; line-height: 1.5;
  max-width: 56rem; padding: 0.5em;
}
@media (prefers-color-scheme: dark) {
  .skdpdyn-display {
    --skdpdyn-text: var(--sg-text-color, var(--theme-code-foreground,
      var(--jp-content-font-color1, #fff)));
    --skdpdyn-background: var(--sg-background-color, var(--theme-background,
      var(--jp-layout-color0, #111)));
    --skdpdyn-warning: #ff8a80;
  }
}
.skdpdyn-display > header { font-weight: bold; margin-bottom: 0.5em; }
.skdpdyn-display > ul { display: flex; flex-wrap: wrap; gap: 0.6em; list-style: none;
  margin: 0 0 0.6em 0; padding: 0; }
.skdpdyn-display > ul > li { background: var(--skdpdyn-shade); border-radius: 0.25em;
  flex: 1 1 12em; margin: 0; padding: 0.5em 0.8em; }
.skdpdyn-display > ul > li > b { display: block; font-size: 1.9em; line-height: 1.25; }
.skdpdyn-display > p { margin: 0.3em 0; }
.skdpdyn-display > p.skdpdyn-leak { color: var(--skdpdyn-warning); font-weight: bold; }
.skdpdyn-display details { border-top: 1px solid var(--skdpdyn-line); padding: 0.3em 0; }
.skdpdyn-display summary { cursor: pointer; }
.skdpdyn-display table { border-collapse: collapse; background: none; color: inherit;
  font-size: inherit; margin: 0.4em 0; }
.skdpdyn-display td, .skdpdyn-display th { background: none; border: 0;
  border-bottom: 1px solid var(--skdpdyn-line); color: inherit; padding: 0.15em 1.2em 0.15em 0;
  text-align: left; vertical-align: top; }
.skdpdyn-display progress { width: 100%; }
"""

Rows = Sequence[Sequence[str]]


def whose(guarantee: Any) -> str:
    """Return which neighbours a guarantee is for, and whom it protects, in a few words."""
    whom = "a record" if guarantee.unit == "record" else f"one {guarantee.unit}"
    return f"{guarantee.adjacency}, for {whom}"


def printable(text: str) -> str:
    r"""Return a text in one line, with escapes in the place of all that is not printable.

    Names of columns and levels come from files. With line breaks, control characters or a change of
    direction they could forge lines of a report, or erase some on a terminal.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str

    Examples
    --------
    >>> from skdpdyn.privacy.display import printable
    >>> print(printable("age\n\x1b[2K"))
    age\n\x1b[2K
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def code_span(name: Any) -> str:
    """Return a name as Markdown shows code, whatever is in it.

    Parameters
    ----------
    name : object
        A name, such as that of a column.

    Returns
    -------
    str

    Examples
    --------
    >>> from skdpdyn.privacy.display import code_span
    >>> print(code_span("age"), code_span("a`b"))
    `age` ``a`b``
    """
    text = printable(str(name))
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    room = " " * (text[:1] in ("`", " ", "") or text[-1:] in ("`", " "))
    return f"{ticks}{room}{text}{room}{ticks}"


_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:.*?[^`])??\1(?!`)")
_MARKS = re.compile(r"[\\`*<>\[\]#|&~]")


def markdown(text: str) -> str:
    r"""Return a text in one line of Markdown that shows it as it is, with its code spans.

    Parameters
    ----------
    text : str
        A sentence; `code_span` has made its names.

    Returns
    -------
    str

    Examples
    --------
    >>> from skdpdyn.privacy.display import markdown
    >>> print(markdown("bounds of `a*b` <b>"))
    bounds of `a*b` \<b\>
    """
    text = printable(text)
    parts = []
    end = 0
    for span in _SPAN.finditer(text):
        parts += [_MARKS.sub(r"\\\g<0>", text[end : span.start()]), span.group()]
        end = span.end()
    return "".join([*parts, _MARKS.sub(r"\\\g<0>", text[end:])])


def label_of(name: Any) -> str:
    """Return a name as a picture shows it, where dollars would begin a formula."""
    return printable(str(name)).replace("$", r"\$")


@dataclass(frozen=True)
class Document:
    """Title, table and notes of a result; text and HTML are views of it.

    Parameters
    ----------
    title : str
        Title, in one line.
    table : sequence of sequences of str, default=()
        Rows of a table, the first one its head. The last cell of a shorter row takes the rest.
    notes : sequence of str, default=()
        Sentences below.
    leaks : sequence of str, default=()
        Parts that are not private.
    figures : sequence of (str, str) pairs, default=()
        Numbers in large letters, each with a label; for HTML alone.
    share : float or None, default=None
        Part of a whole that is used up, drawn as a bar.
    folded : sequence of (str, rows) pairs, default=()
        Titles and tables without a head, which the reader can unfold; for HTML alone. Empty ones
        are left out.

    Examples
    --------
    >>> from skdpdyn.privacy.display import Document
    >>> document = Document("a model", table=[("", "epsilon"), ("fit < 2", "1.5")])
    >>> print(document.text())
    a model
             epsilon
    fit < 2      1.5
    >>> document.html().count("fit &lt; 2")
    1
    """

    title: str
    table: Rows = ()
    notes: Sequence[str] = ()
    leaks: Sequence[str] = ()
    figures: Sequence[tuple[str, str]] = ()
    share: float | None = None
    folded: Sequence[tuple[str, Rows]] = ()

    def text(self) -> str:
        """Return it as text, escaped where it is not printable."""
        table = [[*map(printable, row)] for row in self.table]
        rows = [row for row in table if len(row) == len(table[0])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        widths[:1] = [max((len(row[0]) for row in table), default=0)]
        lines = [printable(self.title)]
        for row in table:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=False)]
            lines.append("  ".join(cells).rstrip())
        leaks = [f"NOT PRIVATE: {leak}" for leak in self.leaks]
        return "\n".join([*lines, *map(printable, [*self.notes, *leaks])])

    def html(self) -> str:
        """Return it as HTML for notebooks and pages, in light and dark; every text is escaped."""
        parts = [f"<style>{_STYLE}</style>", f"<header>{_escaped(self.title)}</header>"]
        cards = "".join(
            f"<li><b>{_escaped(large)}</b>{_escaped(small)}</li>" for large, small in self.figures
        )
        parts.append(f"<ul>{cards}</ul>")
        if self.share is not None:
            parts.append(f'<progress value="{min(self.share, 1.0):.4f}"></progress>')
        parts += [
            f'<p class="skdpdyn-leak">NOT PRIVATE: {_escaped(leak)}</p>' for leak in self.leaks
        ]
        parts += [f"<p>{_escaped(line)}</p>" for line in self.notes]
        if self.table:
            head, *rows = self.table
            body = "".join(_row(row, n_columns=len(head)) for row in rows)
            parts.append(f"<table>{_row(head, 'th')}{body}</table>")
        for name, entries in self.folded:
            body = "".join(map(_row, entries))
            if body:
                summary = f"<summary>{_escaped(name)}</summary>"
                parts.append(f"<details>{summary}<table>{body}</table></details>")
        return f'<div class="skdpdyn-display">{"".join(parts)}</div>'


def _row(cells: Sequence[str], tag: str = "td", n_columns: int = 0) -> str:
    spans = [1] * (len(cells) - 1) + [max(n_columns - len(cells) + 1, 1)]
    return "".join(
        [
            "<tr>",
            *(
                f"<{tag}{f' colspan={span}' * (span > 1)}>{_escaped(cell)}</{tag}>"
                for cell, span in zip(cells, spans, strict=True)
            ),
            "</tr>",
        ]
    )


def _escaped(text: str) -> str:
    return html.escape(printable(text))


class Shown(ABC):
    """Show the `Document` of a result wherever it is printed."""

    @abstractmethod
    def document(self) -> Document:
        """Return the document."""

    def __repr__(self) -> str:
        return self.document().text()

    def _repr_html_(self) -> str:
        return self.document().html()


def axes_or_new(ax: Any, **options: Any) -> Any:
    """Return these matplotlib Axes; None: those of a new figure with these options."""
    return optional("matplotlib.pyplot", "plot").subplots(**options)[1] if ax is None else ax


def draw_band(
    ax: Any, x: Any, value: Any, ends: Sequence[Any], meaning: str | None = None, **kwargs: Any
) -> Any:
    """Draw a line and its band, which a legend calls by its meaning; return the line.

    ``kwargs`` are matplotlib's of the line.
    """
    (line,) = ax.plot(x, value, **kwargs)
    shade = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0, "label": meaning}
    ax.fill_between(x, *ends, **shade)
    return line


def draw_reference(ax: Any, x: Any, y: Any, label: str) -> None:
    """Draw a dashed line to compare curves with."""
    ax.plot(x, y, color="0.6", linestyle="--", linewidth=1, label=label)


class Display:
    """Keep the axes that a picture is drawn on."""

    figure_: Any
    ax_: Any

    def _draw_on(self, ax: Any) -> Any:
        """Draw on these axes from now on, and return them; None: on those of a new figure."""
        ax = axes_or_new(ax)
        self.figure_ = ax.figure
        self.ax_ = ax
        return ax
