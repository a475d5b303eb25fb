"""Text that came from files, names and servers, as it may be shown on a terminal: escaped and without secrets.

A URI or a setting can hold a secret, which is shown as `***`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiersnap.snapshot.errors import UsageError
from tiersnap.snapshot.units import escaped

_HIDDEN = "***"
# A number and a `/` behind the colon is a port. What stands alone before the @ is a token in HTTP; elsewhere it is a
# name, as the container in abfss://container@account.
_IN_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:[^/@\s:]*:(?!\d{1,5}/)[^@\s]*|(?<=http://)[^/@\s]+|(?<=https://)[^/@\s]+)@"
)
# Any value may be one: key, sig and code are names of secrets, too.
_IN_QUERY = re.compile(r"(?P<before>[A-Za-z][A-Za-z0-9+.-]*://[^\s?#'\"]*\?)(?P<query>[^\s#'\"]+)")
_VALUE = re.compile(r"(?P<name>(?:^|&)(?:[^&=]*=)?)[^&]+")
_IN_SETTING = re.compile(
    r"(?i)(?P<name>[\w.-]*(?:secret|password|passwd|token|credential|(?:access|api)[._-]?key|signature|jaas)[\w.-]*\s*[=:]\s*)"
    r"(?P<value>[^\s,;&'\"]+)"
)


def masked(text: str) -> str:
    """The text without passwords and queries of URIs and values of settings that are named like secrets."""
    text = _IN_QUERY.sub(lambda found: found["before"] + _VALUE.sub(rf"\g<name>{_HIDDEN}", found["query"]), text)
    return _IN_SETTING.sub(rf"\g<name>{_HIDDEN}", _IN_URI.sub(rf"\g<scheme>{_HIDDEN}@", text))


def shown(text: str) -> str:
    """Both."""
    return escaped(masked(text))


def in_words(value: object) -> str:
    """A value of a summary as people write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or "none"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(str, value)) or "none"
    return "" if value is None else str(value)


def refuse_credentials(name: str, value: object) -> None:
    """Refuse a setting's value that is a URI with a password in it (UsageError); the message does not show it."""
    for text in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(text, str) and _IN_URI.search(text):
            raise UsageError(
                f"{name}: {masked(text)}: a password in a URI ends up in tables, logs and process lists",
                hint="give it by the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), a profile or a role",
            )
