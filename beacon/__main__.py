"""`python -m beacon` is `beacon`."""

from beacon.cli import main

if __name__ == "__main__":
    main(prog_name="beacon")
