"""`echo` gives back what it was sent: for trying a client, and for conformance tests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from halocline_service.processes.base import (
    WHOLE,
    Control,
    Execution,
    Inputs,
    OutputDescription,
    Process,
)

__all__ = ["ECHO", "BoundingBox", "EchoInputs", "Pair", "echo"]


class BoundingBox(Inputs):
    """A box in a coordinate system, in the form of OGC API - Processes."""

    bbox: Annotated[list[float], Field(min_length=4, max_length=6)]
    crs: Annotated[str, Field(max_length=200)] = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


class Pair(Inputs):
    """An object with two members."""

    name: Annotated[str, Field(max_length=1000)]
    value: float


class EchoInputs(Inputs):
    """Everything is optional; what is given comes back under the same name."""

    string: Annotated[
        str | None, Field(title="Text", description="Any text.", max_length=10_000)
    ] = None
    number: Annotated[float | None, Field(title="Number", description="Any number.")] = None
    choice: Annotated[
        Literal["north", "south"] | None, Field(title="Choice", description="One of two texts.")
    ] = None
    array: Annotated[
        list[Annotated[int, WHOLE]] | None,
        Field(title="Array", description="Whole numbers.", max_length=1000),
    ] = None
    bbox: Annotated[
        BoundingBox | None, Field(title="Bounding box", description="Bounding box on the sphere.")
    ] = None
    pair: Annotated[Pair | None, Field(title="Object", description="Name and value.")] = None
    image: Annotated[
        str | None,
        Field(
            title="Encoded bytes",
            description="Small picture in base64.",
            max_length=100_000,
            pattern=r"^[A-Za-z0-9+/]*={0,2}$",
            json_schema_extra={"contentEncoding": "base64", "contentMediaType": "image/png"},
        ),
    ] = None
    pause: Annotated[
        Annotated[int, Field(ge=0, le=60), WHOLE] | None,
        Field(title="Pause", description="Seconds to wait before answering."),
    ] = None


def echo(inputs: EchoInputs) -> dict[str, Any]:
    """Give the inputs back."""
    return inputs.model_dump(mode="json", exclude={"pause"}, exclude_none=True)


def _pause(inputs: EchoInputs) -> float:
    return float(inputs.pause or 0)


_OUTPUTS = {
    name: OutputDescription(
        title=str(schema.get("title", name)), description="The input.", schema=schema
    )
    for name, schema in EchoInputs.model_json_schema()["properties"].items()
    if name != "pause" and "$ref" not in str(schema)
} | {
    "bbox": OutputDescription("Bounding box", "The input.", BoundingBox.model_json_schema()),
    "pair": OutputDescription("Object", "The input.", Pair.model_json_schema()),
}

ECHO = Process(
    id="echo",
    version="1.0.0",
    title="Echo",
    description="Returns its inputs, after an optional pause.",
    keywords=("test",),
    inputs=EchoInputs,
    outputs=_OUTPUTS,
    control=(Control.SYNC, Control.ASYNC, Control.DISMISS),
    inline=Execution(echo, _pause),
)
