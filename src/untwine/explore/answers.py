"""The shapes of the server's answers. A picture inside an answer is a data: address."""

from __future__ import annotations

from pydantic import BaseModel


class RunLine(BaseModel):
    """A run in the list of all."""

    name: str
    model: str
    data: str
    seed: int
    steps: int
    state: str  # "finished", or how far it is; only finished runs can be looked at
    scores: dict[str, float]


class LatentFacts(BaseModel):
    """One latent: a number of the code z."""

    number: int
    part: str  # the latent variable it belongs to: "z", "style", "content", "beta"
    nats: float  # what it says of an example on average
    active: bool
    factor: str  # the factor it knows most of, or ""
    share: float  # of that factor's entropy
    low: float  # where its slider and traversal begin
    high: float  # and end


class FactorFacts(BaseModel):
    """One factor of the data."""

    name: str
    levels: int


class Facts(BaseModel):
    """What a page must know of a run before it shows anything."""

    name: str
    title: str
    about: str  # the model in a sentence
    data: str
    parameters: list[tuple[str, str]]
    command: str
    shape: list[int]  # of an example: (C, H, W), or (D,) for vectors
    tile: list[int] = []  # height and width of an example in pictures; none for most vectors
    latents: list[LatentFacts]  # the one that says most first
    factors: list[FactorFacts]
    clusters: int  # 0 for a model without
    shared: int  # latents that a group shares; 0 for a model without groups
    examples: int  # in the sample of the data that is looked at


class Example(BaseModel):
    """An example of the data."""

    index: int
    levels: dict[str, int]


class Start(BaseModel):
    """A code to start from."""

    code: list[float]
    picture: str  # the image it was read from; "" for a draw from the prior
    note: str  # what was done to an uploaded picture, or ""


class Reconstruction(BaseModel):
    """An example and how far off the model is."""

    index: int
    levels: dict[str, int]
    error: float  # squared, summed over pixels


class Cluster(BaseModel):
    """One cluster of a model that has them."""

    number: int
    share: float  # of the examples
    members: list[int]  # the first few examples
    most: list[str]  # what its members have in common: "digit = 3 (92 %)"


class Colouring(BaseModel):
    """A way to colour points: the level of every point."""

    name: str
    levels: list[int]
    count: int  # of levels


class Space(BaseModel):
    """Codes of examples in two dimensions."""

    across: str  # what the axes are
    up: str
    index: list[int]
    x: list[float]
    y: list[float]
    colourings: list[Colouring]


class FactorDifference(BaseModel):
    """A level of a factor that is more frequent in a selection than in all points."""

    factor: str
    level: int
    share: float
    overall: float


class LatentDifference(BaseModel):
    """How far the mean of a latent in a selection is from that of all points."""

    number: int
    mean: float
    overall: float
    deviations: float  # in standard deviations of all points


class Selection(BaseModel):
    """What selected points have in common."""

    count: int
    picture: str  # their mean image
    factors: list[FactorDifference]  # the most telling first
    latents: list[LatentDifference]


class ScoreLine(BaseModel):
    """A score between what other codes would get."""

    name: str  # as in scores.json: "mig", "dci.completeness"
    title: str
    value: float
    better: str  # "higher" or "lower"; "" for what is no score itself, such as a standard error
    references: dict[str, float]  # perfect, rotated, random


class FactorTable(BaseModel):
    """What every latent knows of every factor, and the scores that were kept."""

    factors: list[str]
    latents: list[int]  # rows, as in Facts
    matrix: list[list[float]]  # shares of a factor's entropy
    scores: list[ScoreLine]
    note: str  # what to do when there are no factors or no scores, or ""


class StudyFigure(BaseModel):
    """A figure of a study's report."""

    name: str
    title: str
    note: str


class Study(BaseModel):
    """The runs of a study, or of everything that is looked at, as a table."""

    title: str
    columns: list[str]
    rows: list[list[str | float | None]]
    runs: list[str]  # by row the name of its run, "" where it cannot be looked at


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
