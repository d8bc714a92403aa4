"""The recipes of section 5.2 as models, for descriptions of the API alone: `verifier.draws.parse_recipe` decides."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from verifier.encoding import MAX_INTEGER

Count = Annotated[int, Field(ge=1, le=1_000)]
Number = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
IDENTIFIER = "^[A-Za-z][A-Za-z0-9._-]{0,63}$"


class _Recipe(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DiceRecipe(_Recipe):
    """`count` dice of `sides` sides, each 1 to `sides`. reroll_ties: roll again until all differ."""

    kind: Literal["dice"]
    count: Count
    sides: Annotated[int, Field(ge=2, le=2**32)]
    reroll_ties: bool = False


class KeccakDiceRecipe(_Recipe):
    """Six-sided dice with the mapping of on-chain games."""

    kind: Literal["dice"]
    count: Count
    sides: Literal[6]
    mapping: Literal["keccak"]


class IntegersRecipe(_Recipe):
    """`count` numbers, each `min` to `max`."""

    kind: Literal["integers"]
    min: Number
    max: Number
    count: Count


class ShuffleRecipe(_Recipe):
    """A permutation of 0 to size - 1."""

    kind: Literal["shuffle"]
    size: Annotated[int, Field(ge=1, le=10_000)]


class SampleRecipe(_Recipe):
    """`count` different numbers of 0 to size - 1, in order; `count` is not above `size`."""

    kind: Literal["sample"]
    size: Annotated[int, Field(ge=1, le=2**32)]
    count: Annotated[int, Field(ge=1, le=5_000)]


class DealRecipe(_Recipe):
    """`count` cards a draw, from one deck of `size` that lasts for the session."""

    kind: Literal["deal"]
    size: Annotated[int, Field(ge=1, le=10_000)]
    count: Annotated[int, Field(ge=1, le=10_000)]


class WeightedRecipe(_Recipe):
    """`count` indices of `weights`, each with probability weight / total; the total is 1 to 2^53 - 1."""

    kind: Literal["weighted"]
    weights: Annotated[list[Annotated[int, Field(ge=0, le=MAX_INTEGER)]], Field(min_length=1, max_length=10_000)]
    count: Count


class BytesRecipe(_Recipe):
    """`count` bytes, as a hex string."""

    kind: Literal["bytes"]
    count: Annotated[int, Field(ge=1, le=1_024)]


Recipe: TypeAlias = (
    DiceRecipe
    | KeccakDiceRecipe
    | IntegersRecipe
    | ShuffleRecipe
    | SampleRecipe
    | DealRecipe
    | WeightedRecipe
    | BytesRecipe
)
RecipeName = Annotated[str, Field(pattern=IDENTIFIER)]
Recipes = Annotated[dict[RecipeName, Recipe], Field(min_length=1, max_length=64)]


class ShownAs:
    """Describes an annotated type by the JSON schema of another; what is validated stays what it is."""

    def __init__(self, shown: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(shown)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._adapter.core_schema)
