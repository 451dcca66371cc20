"""The site: `sphinx-build -W --keep-going docs site` (extra `docs`); building and reading it needs no network."""

from __future__ import annotations

import re
from typing import Any

import hfrnn
import latex2mathml.converter
from click.testing import CliRunner
from docutils import nodes
from hfrnn.cli import main
from sphinx.util.docutils import SphinxDirective

project = "hfrnn"
author = "the hfrnn authors"
release = version = hfrnn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # browsers draw it themselves: no script, no network
myst_heading_anchors = 4  # so that links to headings are checked
default_role = "code"  # what single backticks in a docstring are
highlight_language = "none"
smartquotes = False
suppress_warnings = [
    "ref.python"
]  # words such as theta, where a docstring has a type, are no links

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say shapes, units and ranges
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "furo"
html_title = "hfrnn"
html_show_copyright = html_show_sphinx = html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

NO_SIGNATURE = {"hfrnn.TrainConfig"}  # some eighty options


class Help(SphinxDirective):
    """`hfrnn-help`, with a command and its flags: what that command prints about itself."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        words = self.arguments[0].split()
        result = CliRunner(env={"COLUMNS": "80"}).invoke(main, words, prog_name="hfrnn")
        if result.exit_code:
            raise self.error(
                f"hfrnn {' '.join(words)} ended with {result.exit_code}: {result.output}"
            )
        return [nodes.literal_block(result.output, result.output, language="none")]


def math(block: bool) -> tuple[Any, None]:
    """Return the visitor of a formula, which writes MathML."""

    def visit(writer: Any, node: nodes.Element) -> None:
        source = node.astext().replace("{aligned}", "{align*}")
        formula = latex2mathml.converter.convert(
            source, display="block" if block else "inline"
        )
        writer.body.append(f'<div class="math">{formula}</div>' if block else formula)
        raise nodes.SkipNode

    return visit, None


def plain(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Outside backticks and doctests `|x|` and `lambda_` mean themselves."""
    for n, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`[^`]*`)", line)
            parts[::2] = [
                re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]
            ]
            lines[n] = "".join(parts)


def signature(app: Any, what: str, name: str, *_: Any) -> tuple[str, None] | None:
    return ("", None) if name in NO_SIGNATURE else None


def diary(app: Any, docname: str, source: list[str]) -> None:
    """Offer the diaries and the page of the benchmarks, which are no pages of the site, as files."""
    source[0] = re.sub(
        r"\]\((\.\./benchmarks/(?:diary/)?[\w-]+\.md)(#[\w-]+)?\)",
        r"](path:\1)",
        source[0],
    )


def setup(app: Any) -> None:
    app.add_directive("hfrnn-help", Help)
    app.add_html_math_renderer(
        "mathml", inline_renderers=math(False), block_renderers=math(True)
    )
    app.connect("source-read", diary)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", plain, priority=600)  # after napoleon
