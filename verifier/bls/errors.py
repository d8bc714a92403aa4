"""Why the bytes of a point are refused. Every backend names the fault the same way."""

from __future__ import annotations

from enum import StrEnum

from verifier.errors import Code, FormatError


class PointFault(StrEnum):
    """LENGTH: not as many bytes as the group's points have. ENCODING: no point, or not in its one canonical form."""

    LENGTH = "length"
    ENCODING = "encoding"
    IDENTITY = "identity"
    SUBGROUP = "subgroup"


class PointError(FormatError):
    """FormatError(POINT) that says which fault (2.6)."""

    def __init__(self, fault: PointFault, message: str) -> None:
        super().__init__(Code.POINT, message)
        self.args = (fault, message)
        self.fault = fault
