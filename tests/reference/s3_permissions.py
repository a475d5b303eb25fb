"""The permission of S3 that a request needs, and those that conf/iam-policy.json gives."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

POLICY = json.loads((Path(__file__).parents[2] / "conf/iam-policy.json").read_text())
ALLOWED = {action for statement in POLICY["Statement"] for action in statement["Action"]}


def permission(request: str) -> str:
    """Of `METHOD /bucket/key?query`; a query that is not known is a permission of its own."""
    method, path = request.split(" ", 1)
    parts = urlsplit(path)
    asked = set(parse_qs(parts.query, keep_blank_values=True))
    has_key = len(parts.path.strip("/").split("/", 1)) == 2
    known: dict[tuple[str, bool], list[tuple[set[str], str]]] = {
        ("GET", True): [(set(), "s3:GetObject")],
        ("HEAD", True): [(set(), "s3:GetObject")],
        ("PUT", True): [({"partNumber", "uploadId"}, "s3:PutObject"), (set(), "s3:PutObject")],
        ("POST", True): [({"uploads"}, "s3:PutObject"), ({"uploadId"}, "s3:PutObject")],
        ("DELETE", True): [({"uploadId"}, "s3:AbortMultipartUpload"), (set(), "s3:DeleteObject")],
        ("GET", False): [({"uploads"}, "s3:ListBucketMultipartUploads"), ({"list-type"}, "s3:ListBucket")],
        ("HEAD", False): [(set(), "s3:ListBucket")],
        ("POST", False): [({"delete"}, "s3:DeleteObject")],
    }
    harmless = {"prefix", "continuation-token", "max-keys", "encoding-type", "delimiter", "x-id", "start-after"}
    harmless |= {"key-marker", "upload-id-marker", "max-uploads", "fetch-owner"}
    for words, action in known.get((method, has_key), []):
        if asked - harmless == words:
            return action
    return request


def key_of(request: str) -> str | None:
    """The key of `METHOD /bucket/key?query`, for a list its prefix; None for a question about the bucket itself."""
    parts = urlsplit(request.split(" ", 1)[1])
    _, _, key = parts.path.strip("/").partition("/")
    (prefix,) = parse_qs(parts.query).get("prefix", [None])
    return key or prefix


def may(request: str, prefix: str) -> bool:
    """Whether the policy, with `prefix` for PREFIX, lets a request through: objects below it, and any list."""
    is_below = (key_of(request) or "").startswith(prefix) or permission(request) == "s3:ListBucket"
    return permission(request) in ALLOWED and is_below
