"""The server's description in OpenAPI's form."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from leapdecode.server.bodies import ChatCompletion, Completion, Detokenize, Tokenize

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
MEANINGS = {
    400: "The request is wrong; the message says how.",
    401: "An API key is missing, or wrong.",
    404: "There is no such model.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    429: "Too many texts are under way.",
    503: "The server is stopping.",
    504: "The request took too long.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Answers that are errors, for an endpoint's declaration."""
    content = {"application/json": {"schema": ERROR}}
    return {status: {"description": MEANINGS[status], "content": content} for status in statuses}


def described(app: FastAPI) -> dict[str, Any]:
    """The whole description, made once."""
    if app.openapi_schema is None:
        description = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = description.setdefault("components", {}).setdefault("schemas", {})
        for kind in (Completion, ChatCompletion, Tokenize, Detokenize):
            schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[kind.__name__] = schema
        app.openapi_schema = description
    return app.openapi_schema
