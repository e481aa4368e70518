"""Builds the documentation as a site, and follows every link of it. Installs mdBook where it is not there yet.

    site.py --out FOLDER --cache FOLDER
"""

import argparse
import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
MDBOOK = "0.5.4"


def mdbook(cache):
    folder = cache / "mdbook"
    program = folder / "bin/mdbook"
    known = program.exists() and subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    if known != f"mdbook v{MDBOOK}":
        # Without what serves pages and watches files.
        install = ["cargo", "install", "mdbook", "--version", MDBOOK, "--locked", "--no-default-features", "--features", "search"]
        subprocess.run([*install, "--root", folder], check=True, cwd=ROOT)
    return program


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def dead_links(site):
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    seen, dead = 0, []
    for path, page in pages.items():
        # The page for addresses that are nowhere is served at any depth.
        if path.name == "404.html":
            continue
        for link in page.links:
            address = urllib.parse.urlsplit(link)
            if address.scheme or address.netloc:
                continue
            seen += 1
            target = path if not address.path else (path.parent / urllib.parse.unquote(address.path)).resolve()
            if target.is_dir():
                target = target / "index.html"
            anchor = urllib.parse.unquote(address.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                dead.append(f"{path.relative_to(site)}: {link}")
    return len(pages), seen, dead


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    program, site = mdbook(arguments.cache.resolve()), arguments.out.resolve()
    shutil.rmtree(site, ignore_errors=True)
    built = subprocess.run([program, "build", ROOT / "docs", "--dest-dir", site], capture_output=True, text=True, env=dict(os.environ, RUST_LOG="warn"))
    said = [line for line in (built.stdout + built.stderr).splitlines() if not line.startswith(" INFO")]
    print("".join(f"{line}\n" for line in said), end="")
    pages, seen, dead = dead_links(site)
    results = {
        "mdBook builds the site without a word": built.returncode == 0 and not said,
        f"the site has every page and decision: {pages}": pages > len(list((ROOT / "docs").glob("**/*.md"))),
        f"every one of {seen} links leads somewhere": not dead and seen > 1000,
    }
    print("".join(f"  dead: {link}\n" for link in dead), end="")
    for name, good in results.items():
        print(f"  {'ok     ' if good else 'FAILED '} {name}")
    print(f"{sum(results.values())} passed, {len(results) - sum(results.values())} failed")
    return not all(results.values())


sys.exit(main())
