"""Links that leave docs/ are names of files on the site: the files are in the repository, not on the site."""

from __future__ import annotations

import re

_OUT_OF_DOCS = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)]+|[\w/-]+/|[\w-]+)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page with the name of the file in place of such a link."""
    return _OUT_OF_DOCS.sub(
        lambda link: f"`{link[2].lstrip('./')}`" if link[1] != link[2] else f"`{link[1]}`", markdown
    )
