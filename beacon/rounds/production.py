"""Which rounds a devnet has by now: on time, late, halted, or catching up after a halt. No network, no waiting."""

from __future__ import annotations

from typing import Final

from beacon.clock import Clock
from verifier.drand import ChainInfo


class Production:
    """The newest round that exists, as its clock goes on.

    late_ms: how long after its time a round comes to be. A halted network makes no round; one that resumes makes those
    that it missed one by one, `catch_up_ms` apart, until it is on time again, as drand does. last: where it ends.
    """

    def __init__(self, chain: ChainInfo, clock: Clock, last: int | None = None) -> None:
        self._chain: Final = chain
        self._clock: Final = clock
        self._last: Final = last
        self.late_ms = 0
        self.catch_up_ms = 500 * chain.period
        self._halted_at: int | None = None
        self._resumed: tuple[int, int] | None = None

    @property
    def halted(self) -> bool:
        """Whether it makes no rounds at present, or after a round that is still to come."""
        return self._halted_at is not None

    def expected(self) -> int:
        """The round that is current by the clock."""
        current = self._chain.current(self._clock.now())
        return current if self._last is None else min(current, self._last)

    def head(self) -> int:
        """The newest round that exists; 0: none."""
        now = self._clock.now()
        head = self._chain.current(now - self.late_ms)
        if self._last is not None:
            head = min(head, self._last)
        if self._resumed is not None:
            base, since = self._resumed
            made = base + max(0, now - since) // self.catch_up_ms
            if made >= head:
                self._resumed = None
            head = min(head, made)
        return head if self._halted_at is None else min(head, self._halted_at)

    def halt(self, after: int | None = None) -> None:
        """Make no round after this one; None: after the newest."""
        self._halted_at = max(self.head(), after or 0)

    def resume(self) -> None:
        """Go on: what was missed first."""
        if self._halted_at is not None:
            self._resumed = self.head(), self._clock.now()
            self._halted_at = None
