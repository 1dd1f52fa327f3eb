"""Pages that are written when the site is built; git ignores them."""

from pathlib import Path

DOCS = Path(__file__).parents[1]
MARK = "<!-- Generated when the site is built, from"
"""How such a page begins; its source in the repository follows."""


def write_page(page: str, source: str, text: str) -> None:
    """Write docs/PAGE; an unchanged page is left alone, so that Sphinx does not read it again."""
    path, text = DOCS / page, f"{MARK} {source} -->\n{text.strip()}\n"
    path.parent.mkdir(exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def link_source(app, pagename, templatename, context, doctree):
    """Lets the links "edit" and "view" of a generated page lead to what it is made from."""
    path = DOCS / f"{pagename}.md"
    head = path.read_text(encoding="utf-8").partition("\n")[0] if path.is_file() else ""
    if head.startswith(MARK):
        source = head.removeprefix(MARK).removesuffix("-->").strip()
        repository = app.config.html_theme_options["source_repository"]
        context["theme_source_edit_link"] = f"{repository}/edit/main/{source}"
        context["theme_source_view_link"] = f"{repository}/blob/main/{source}"


def table(columns: list[str], rows: list[list[object]]) -> str:
    """A table in Markdown; columns whose names end in `:` are aligned to the right."""
    head = [column.removesuffix(":") for column in columns]
    rule = ["---:" if column.endswith(":") else "---" for column in columns]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in [head, rule, *rows])


def setup(app):
    app.connect("html-page-context", link_source, priority=900)  # after the theme has set its own links
    return {"parallel_read_safe": True}
