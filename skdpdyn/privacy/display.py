"""Show numbers in notebooks the way scikit-learn shows estimators: large first, details folded."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

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

Rows = Iterable[Sequence[str]]


def whose(guarantee: Any) -> str:
    """Return which neighbours a guarantee is for, and whom it protects, in a few words."""
    one = "a record" if guarantee.unit == "record" else f"one {guarantee.unit}"
    return f"{guarantee.adjacency}, for {one}"


def page(
    title: str,
    figures: Iterable[tuple[str, str]],
    *,
    share: float | None = None,
    leaks: Iterable[str] = (),
    lines: Iterable[str] = (),
    table: Rows = (),
    folded: Iterable[tuple[str, Rows]] = (),
) -> str:
    """Return HTML for notebooks and pages, in light and dark; every text is escaped.

    Parameters
    ----------
    title : str
        Title of the page.
    figures : iterable of (str, str) pairs
        Numbers in large letters, each with a label.
    share : float or None, default=None
        Part of a whole that is used up, drawn as a bar.
    leaks : iterable of str, default=()
        Parts that are not private.
    lines : iterable of str, default=()
        Sentences below.
    table : iterable of sequences of str, default=()
        Rows of a table, the first one its head.
    folded : iterable of (str, rows) pairs, default=()
        Titles and tables without a head, which the reader can unfold. Empty ones are left out.

    Returns
    -------
    str

    Examples
    --------
    >>> from skdpdyn.privacy.display import page
    >>> page("a model", [("1 < 2", "epsilon")]).count("1 &lt; 2")
    1
    """
    parts = [f"<style>{_STYLE}</style>", f"<header>{html.escape(title)}</header>"]
    cards = "".join(
        f"<li><b>{html.escape(large)}</b>{html.escape(small)}</li>" for large, small in figures
    )
    parts.append(f"<ul>{cards}</ul>")
    if share is not None:
        parts.append(f'<progress value="{min(share, 1.0):.4f}"></progress>')
    parts += [f'<p class="skdpdyn-leak">NOT PRIVATE: {html.escape(leak)}</p>' for leak in leaks]
    parts += [f"<p>{html.escape(line)}</p>" for line in lines]
    head, *rows = table or [()]
    if head:
        parts.append(f"<table>{_row(head, 'th')}{''.join(_row(row) for row in rows)}</table>")
    for name, entries in folded:
        body = "".join(_row(row) for row in entries)
        if body:
            summary = f"<summary>{html.escape(name)}</summary>"
            parts.append(f"<details>{summary}<table>{body}</table></details>")
    return f'<div class="skdpdyn-display">{"".join(parts)}</div>'


def _row(cells: Iterable[str], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
