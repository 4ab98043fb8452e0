"""Shows files beside `docs/` on the documentation site: findings, how to measure, examples.

mkdocs calls the functions (see `hooks` in mkdocs.yml). In the repository links between these
folders are relative paths; on the site they become links between its pages.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "bench/findings/": "findings/",
    "bench/scripts/": "measuring/",
    "examples/": "examples/",
    "docs/": "",
}
PATTERNS = ("bench/findings/*.md", "bench/scripts/*.md", "examples/*.py", "examples/*.toml")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add these files."""
    for path in (path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))):
        place = site_path(path.relative_to(ROOT).as_posix())
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to where their pages are on the site."""
    here = page.file.src_uri
    path = repository_path(here)

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
        place = site_path(target)
        if place not in files.src_uris:
            return link[0]
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}"

    return re.sub(r"\]\(([^)#:\s]+)", moved, markdown)


def site_path(path: str) -> str:
    """Where the site has a file of the repository; the path itself where it has none."""
    folder = next((folder for folder in FOLDERS if path.startswith(folder)), "")
    return FOLDERS.get(folder, "") + path.removeprefix(folder)


def repository_path(place: str) -> str:
    """Where the file of a page lies."""
    folder = next(folder for folder, shown in FOLDERS.items() if place.startswith(shown))
    return folder + place.removeprefix(FOLDERS[folder])
