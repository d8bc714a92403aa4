"""`python -m verifier` is `verifier`."""

from verifier.cli import main

if __name__ == "__main__":
    main(prog_name="verifier")
