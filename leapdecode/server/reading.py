"""A body as an object, and what is wrong with it in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from leapdecode.errors import with_suggestions
from leapdecode.plain import one_line
from leapdecode.server.failures import Failure

Body = TypeVar("Body", bound=BaseModel)
SHOWN = 3  # faults of one field
MOST = 1000  # faults that are looked at


def read(kind: type[Body], raw: bytes) -> Body:
    """The body; raises `Failure` that names the first field that is wrong."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        if error.error_count() > MOST:
            raise Failure(400, f"the body has {error.error_count():,} faults") from None
        raise fault(kind, error.errors(include_url=False, include_context=True)) from None


def fault(kind: type[BaseModel], errors: Sequence[Any]) -> Failure:
    """What is wrong with a body."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Failure(400, f"the body is not JSON: {one_line(first['msg'])[:300]}", code="json")
    if not first["loc"]:
        return Failure(400, one_line(first["msg"])[:300])
    name = str(first["loc"][0])[:100]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        known = [field.alias or key for key, field in kind.model_fields.items()]
        said = with_suggestions(f"there is no field {name!r}", name, known)
        return Failure(400, one_line(said), name, "unknown_field")
    faults = dict[str, None]()
    for one in errors:
        if one["loc"] and str(one["loc"][0]) == name:
            faults.setdefault(_said(one))
    return Failure(400, f"{name}: {'; or '.join(list(faults)[:SHOWN])}"[:1000], name)


def _said(error: Any) -> str:
    """One fault, with the place inside its field."""
    inside = [str(part)[:50] for part in error["loc"][1:] if _is_place(part)]
    where = f"{'.'.join(inside)}: " if inside else ""
    return where + one_line(error["msg"])


def _is_place(part: Any) -> bool:
    """Whether a part of a location names an item or a field, not a branch of a union."""
    return isinstance(part, int) or (part.isidentifier() and part not in ("str", "int", "float"))
