"""A preprocessor of mdBook: makes a book of the pages as they lie in the repository.

Pages from outside of docs/ get a place in the site, every decision gets a line below the page about them, and links follow. A link to a file that is
no page leads to the repository where its address is known, and is plain text elsewhere.
"""

import json
import os
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where pages from outside of docs/ are in the site.
MOVED = {"README.md": "about.md", "CHANGELOG.md": "changelog.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "report.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def decisions(parent):
    number = parent["number"] or []
    for index, page in enumerate(sorted((ROOT / "docs/adr").glob("[0-9]*.md")), 1):
        text = page.read_text()
        title = text.split("\n", 1)[0].lstrip("# ")
        path = f"adr/{page.name}"
        yield {"Chapter": {"name": title, "content": text, "number": [*number, index], "sub_items": [], "path": path, "source_path": path, "parent_names": [parent["name"]]}}


def placed(chapter, places, repository):
    source = posixpath.normpath(posixpath.join("docs", chapter["source_path"]))
    here = posixpath.dirname(places[source])

    def moved(found):
        picture, words, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found.group(0)
        file, _, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        anchor = f"#{anchor}" if anchor else ""
        if wanted in places or wanted.startswith("docs/"):
            place = places.get(wanted, wanted.removeprefix("docs/"))
            # The first page of a folder is its index by the time that links are followed.
            place = re.sub(r"(^|/)README\.md$", r"\1index.md", place)
            return f"{picture}[{words}]({posixpath.relpath(place, here or '.')}{anchor})"
        return f"{picture}[{words}]({repository}/blob/HEAD/{wanted}{anchor})" if repository else words

    # Code is shown as it is, and so are its brackets.
    parts = re.split(r"(^ *```.*?^ *```$)", chapter["content"], flags=re.S | re.M)
    chapter["content"] = "".join(part if index % 2 else LINK.sub(moved, part) for index, part in enumerate(parts))


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _context, book = json.load(sys.stdin)
    items = book["items"]
    for chapter in chapters(items):
        if chapter["path"] == "adr/README.md":
            chapter["sub_items"] = list(decisions(chapter))
    places = {}
    for chapter in chapters(items):
        source = posixpath.normpath(posixpath.join("docs", chapter["path"]))
        chapter["source_path"] = chapter["path"]
        chapter["path"] = places[source] = MOVED.get(source, chapter["path"])
    for chapter in chapters(items):
        placed(chapter, places, os.environ.get("TIDINGS_REPOSITORY"))
        chapter["source_path"] = chapter["path"]
    json.dump(book, sys.stdout)


main()
