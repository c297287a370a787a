"""`python -m predgap` is `predgap`."""

from predgap.cli import main

if __name__ == "__main__":
    main()
