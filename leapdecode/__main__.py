"""`python -m leapdecode`."""

from leapdecode.cli.app import main

if __name__ == "__main__":
    main()
