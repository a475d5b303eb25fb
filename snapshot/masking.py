"""Replace secrets in a text by `***`.

Secrets are passwords and query values of URIs, and the values of settings whose names contain a word such as `secret`
or `token`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_HIDDEN = "***"
# Patterns match only from the start of a word. Tried at each character, they would take minutes for a 100 KB line.
_SCHEME = r"(?<![A-Za-z0-9+.-])[0-9+.-]*[A-Za-z][A-Za-z0-9+.-]*://"
# A number between a colon and a `/` is a port. Text without a colon before the @ is a token in HTTP URIs. In other URIs
# that text is a name, such as the container in abfss://container@account.
IN_URI = re.compile(
    rf"(?P<scheme>{_SCHEME})(?:[^/@\s:]*:(?!\d{{1,5}}/)[^@\s]*|(?<=http://)[^/@\s]+|(?<=https://)[^/@\s]+)@"
)
# All values of a query are masked, because parameters such as key, sig and code can contain a secret.
_IN_QUERY = re.compile(rf"(?P<before>{_SCHEME}[^\s?#'\"]*\?)(?P<query>[^\s#'\"]+)")
_VALUE = re.compile(r"(?P<name>(?:^|&)(?:[^&=]*=)?)[^&]+")
_IN_SETTING = re.compile(
    r"(?i)(?P<name>(?<![\w.-])[\w.-]*(?:secret|password|passwd|token|credential|(?:access|api)[._-]?key|signature|jaas)[\w.-]*\s*[=:]\s*)"
    r"(?P<value>[^\s,;&'\"]+)"
)


def masked(text: str) -> str:
    """Return the text without URI passwords, URI query values, and values of settings named like secrets."""
    return _IN_SETTING.sub(rf"\g<name>{_HIDDEN}", masked_uri(text))


def masked_uri(text: str) -> str:
    """Return the text without the passwords and query values of its URIs."""
    text = _IN_QUERY.sub(lambda found: found["before"] + _VALUE.sub(rf"\g<name>{_HIDDEN}", found["query"]), text)
    return IN_URI.sub(rf"\g<scheme>{_HIDDEN}@", text)


def masked_values(value: object, mask: Callable[[str], str] = masked_uri) -> object:
    """Return a copy of plain data in which each text is masked, also inside dicts and lists."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: masked_values(each, mask) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked_values(each, mask) for each in value]
    return value
