"""drand rounds: fetched from relays that are not trusted, verified, stored, and told to the sessions that wait."""

from beacon.rounds.fetcher import Policy
from beacon.rounds.rounds import ChainStatus, Followed, Rounds
from beacon.rounds.store_protocol import Put, RoundStore

__all__ = ["ChainStatus", "Followed", "Policy", "Put", "RoundStore", "Rounds"]
