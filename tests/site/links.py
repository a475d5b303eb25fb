"""Links that leave docs/ or name folders are names on the site: what they lead to is in the repository alone."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the page with the name of the file or folder in place of such a link."""

    def kept(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2]))
        is_page = not target.startswith("..") and posixpath.splitext(target)[1]
        return link[0] if is_page else f"`{target.lstrip('./')}`"

    return _LINK.sub(kept, markdown)
