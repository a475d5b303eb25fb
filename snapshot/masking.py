"""Hide the secrets of a text: passwords and queries of URIs, and values of settings that are named like secrets.

They are shown as `***`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_HIDDEN = "***"
# Patterns begin at the start of a word: if tried at each character, they take minutes for a line of 100 KB.
_SCHEME = r"(?<![A-Za-z0-9+.-])[0-9+.-]*[A-Za-z][A-Za-z0-9+.-]*://"
# A number and a `/` after the colon is a port. In HTTP, text without a colon before the @ is a token; in other schemes
# it is a name, as the container in abfss://container@account.
IN_URI = re.compile(
    rf"(?P<scheme>{_SCHEME})(?:[^/@\s:]*:(?!\d{{1,5}}/)[^@\s]*|(?<=http://)[^/@\s]+|(?<=https://)[^/@\s]+)@"
)
# Any value may be one: key, sig and code are names of secrets, too.
_IN_QUERY = re.compile(rf"(?P<before>{_SCHEME}[^\s?#'\"]*\?)(?P<query>[^\s#'\"]+)")
_VALUE = re.compile(r"(?P<name>(?:^|&)(?:[^&=]*=)?)[^&]+")
_IN_SETTING = re.compile(
    r"(?i)(?P<name>(?<![\w.-])[\w.-]*(?:secret|password|passwd|token|credential|(?:access|api)[._-]?key|signature|jaas)[\w.-]*\s*[=:]\s*)"
    r"(?P<value>[^\s,;&'\"]+)"
)


def masked(text: str) -> str:
    """Return the text without passwords and queries of URIs, and without values of settings named like secrets."""
    return _IN_SETTING.sub(rf"\g<name>{_HIDDEN}", masked_uri(text))


def masked_uri(text: str) -> str:
    """Return a text without passwords and queries of the URIs in it."""
    text = _IN_QUERY.sub(lambda found: found["before"] + _VALUE.sub(rf"\g<name>{_HIDDEN}", found["query"]), text)
    return IN_URI.sub(rf"\g<scheme>{_HIDDEN}@", text)


def masked_values(value: object, mask: Callable[[str], str] = masked_uri) -> object:
    """Return plain data, dicts and lists of it included, with each text masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: masked_values(each, mask) for key, each in value.items()}
    return [masked_values(each, mask) for each in value] if isinstance(value, (list, tuple)) else value
