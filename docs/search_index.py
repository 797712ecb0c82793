"""Sphinx extension: the words that people search for, and a builder of only the index that has them."""

from docutils import nodes
from sphinx import addnodes
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.transforms import SphinxTransform


def setup(app):
    app.add_config_value("search_words", {}, "env", types=dict)
    app.add_transform(AddSearchWords)
    app.add_builder(SearchBuilder)
    return {"version": "1", "parallel_read_safe": True}


class AddSearchWords(SphinxTransform):
    """Enter each page in the index under the words of `search_words`, as the main place for them."""

    default_priority = 100  # before the index is collected

    def apply(self):
        words = self.config.search_words.get(self.env.docname, ())
        section = next(self.document.findall(nodes.section), None)
        if words and section is not None:
            entries = [("single", word, section["ids"][0], "main", None) for word in words]
            section.insert(1, addnodes.index(entries=entries, inline=False))


class SearchBuilder(StandaloneHTMLBuilder):
    """Writes the search index and its scripts, without the pages: what a test of the search needs."""

    name = "search"

    def write_documents(self, docnames):
        for name in docnames:
            self.index_page(name, self.env.get_doctree(name), self.env.titles[name].astext())

    def finish(self):
        self.copy_static_files()
        self.dump_search_index()
