"""`python -m leapdecode.lm_eval`: the lm-evaluation-harness's command line, with our model."""

import importlib.util
import sys

from leapdecode.errors import LeapdecodeError

NEEDED = "the harness is not installed here; install it with: pip install 'leapdecode[lm-eval]'"
ABSENT = 2  # exit code


def main() -> None:
    """Register the model and hand over; an error of ours is one line and its exit code."""
    if importlib.util.find_spec("lm_eval") is None:
        print(f"error: {NEEDED}", file=sys.stderr)
        sys.exit(ABSENT)
    from lm_eval.__main__ import cli_evaluate

    import leapdecode.integrations.lm_eval  # noqa: F401, registers the model

    try:
        cli_evaluate()
    except LeapdecodeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
