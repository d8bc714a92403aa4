"""Small complete hosts on the SDK: `python -m beacon.examples.raffle --help`."""
