"""The independent checker of fair-beacon transcripts, and the protocol itself.

Imports nothing of the service. No module reads a clock, a file or the network except fetch.py and cli.py.
"""
