"""Documents in JSON with anything wrong in them, as hypothesis draws them."""

import json

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.sampled_from([10**400, 1e308, True, 0, -1, 1, 2.0])
)
ANYTHING = st.recursive(
    st.one_of(st.none(), NUMBERS, st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value, above=()):
    """The keys that lead to each part of what JSON holds."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*above, key)
        yield from places(value[key], (*above, key))


@st.composite
def damaged(draw, document):
    """A document with anything at one place in it, as it comes from a file."""
    document = json.loads(json.dumps(document))
    *above, key = draw(st.sampled_from(list(places(document))))
    part = document
    for step in above:
        part = part[step]
    part[key] = draw(NUMBERS | ANYTHING)
    return json.loads(json.dumps(document))


@st.composite
def damaged_bytes(draw, document):
    """A file of a document: with something else at one place, cut off, or with other bytes."""
    content = json.dumps(draw(damaged(document) | st.just(document))).encode()
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    return draw(
        st.just(content)
        | st.just(content[:end])
        | st.binary(max_size=8).map(lambda other: content[:start] + other + content[end:])
        | st.binary(max_size=40)
        | ANYTHING.map(lambda value: json.dumps(value).encode())
    )
