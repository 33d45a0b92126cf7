"""The data types of the server's answers. A picture inside an answer is a data: URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

Phase = Literal["finished", "elsewhere", "running", "failed", "stopped", "waiting", "unreadable"]


class RunLine(BaseModel):
    """A run in the list of runs."""

    name: str
    label: str = ""  # tells it apart from the others: its own name, model, parameters and seed
    model: str
    data: str
    shape: list[int] = []  # of an example; none for runs of earlier versions
    seed: int
    steps: int
    step: int = 0  # reached, or from which it would resume
    seconds_left: float | None = None  # of a running run, once it has begun
    phase: Phase  # only finished runs can be opened; those `elsewhere` lack their weights here
    state: str  # the phase in words, with the progress
    reason: str = ""  # why it failed
    time: float = 0.0  # when it was finished or else started, in seconds since 1970
    problem: str = ""  # why the scores cannot be read
    scores: dict[str, float]


class Overview(BaseModel):
    """What the page opens with."""

    title: str  # of the study, or "All runs"
    view: Literal["latents", "curves", "study"]
    run: str  # the one to open on, or the newest finished run, or else the newest; "" without runs
    waiting: int  # runs of the study that have not begun


class Curves(BaseModel):
    """The terms of the loss of a run during training."""

    run: RunLine  # as it is now
    steps: list[int]
    training: dict[str, list[float | None]]  # by term, a value for every step
    validation: dict[str, list[float | None]]  # the same on held-out data
    note: str = ""  # on constants that are left out


class LatentSummary(BaseModel):
    """One latent: a dimension of the code z."""

    number: int
    part: str  # the latent variable it belongs to: "z", "style", "content", "beta"
    nats: float  # mean information about an example
    exact: bool  # whether nats is the mean KL to the prior, or an estimate
    active: bool  # whether it says something of examples and changes what is decoded
    factor: str  # the factor it knows most of, or ""
    share: float  # of that factor's entropy
    low: float  # start of its slider and traversal
    high: float  # end


class FactorSummary(BaseModel):
    """One factor of the data."""

    name: str
    levels: int
    level_names: list[str] = []  # of every level; empty where levels are numbers
    ordered: bool = True  # whether levels have an order


class ColumnSummary(BaseModel):
    """One column of a table."""

    name: str
    low: float  # of the central 97 % of the data
    high: float


class LabelSummary(BaseModel):
    """One label of a conditional model; its level stands in a code after those of the latents."""

    name: str
    levels: list[str]


class RunSummary(BaseModel):
    """The description of a run that every view of the page needs."""

    name: str
    title: str
    about: str  # the model in a sentence
    data: str
    parameters: list[tuple[str, str]]
    command: str
    shape: list[int]  # of an example: (C, H, W), or (D,) for vectors
    tile: list[int] = []  # height and width of an example in pictures; none for most vectors
    latents: list[LatentSummary]  # most informative first
    factors: list[FactorSummary]
    labels: list[LabelSummary] = []  # of a conditional model
    clusters: int  # 0 for a model without clusters
    shared: int  # latents that a group shares; 0 for a model without groups
    measures: list[str] = []  # what the model says of each example: "log_likelihood", ...
    examples: int  # in the sample of the data
    total: int = 0  # examples of the data
    columns: list[ColumnSummary] = []  # of a table; empty for images
    hidden: int = 0  # further columns of a table, which are not shown
    missing: str = ""  # why there are none, and what to type to have them


class RowValues(BaseModel):
    """An example of a table and its reconstruction, in units of the columns."""

    values: list[float]  # of RunSummary.columns
    reconstruction: list[float]


class Example(BaseModel):
    """An example of the data."""

    index: int
    name: str = ""  # its file or name
    levels: dict[str, int]


class Matches(BaseModel):
    """The examples that a search found."""

    count: int
    examples: list[Example]  # the first of them


class Start(BaseModel):
    """A code to start from."""

    code: list[float]
    picture: str  # the encoded image; "" for a draw from the prior
    note: str  # changes made to an uploaded picture, or ""
    name: str = ""  # of the example
    row: RowValues | None = None  # of the example, for tables


class Progress(BaseModel):
    """How many examples are measured."""

    done: int
    target: int  # to be measured without being asked for more
    total: int
    running: bool
    seconds: float | None  # until the target, about
    problem: str = ""


class Reconstruction(BaseModel):
    """An example and what the model says of it."""

    index: int
    name: str = ""
    levels: dict[str, int]
    log_likelihood: float | None  # in nats; None for a model that has none
    kl: float | None  # in nats
    error: float | None  # mean squared; None if it is not measured yet
    distance: float | None  # of its code from the mean of all codes
    row: RowValues | None = None  # for tables


class Reconstructions(BaseModel):
    """Examples in an order, and how many are measured so far."""

    examples: list[Reconstruction]
    count: int  # of the examples in this order
    progress: Progress


class Cluster(BaseModel):
    """One cluster of a model."""

    number: int
    share: float  # of the examples, or without them of draws from the prior
    members: list[int]  # the first few examples
    most: list[str]  # levels that its members have in common: "digit = 3 (92 %)"
    means: list[float] = []  # of its members by column, for tables


class Colouring(BaseModel):
    """A way to colour points: the level of each point."""

    name: str
    levels: list[int]
    count: int  # of levels
    ordered: bool  # whether levels have an order


class Numbers(BaseModel):
    """A number for each point, to colour it by."""

    values: Sequence[float | None]  # None where it is not known yet
    running: bool  # whether more become known by themselves


class Space(BaseModel):
    """Codes of examples in two dimensions."""

    across: str  # label of the horizontal axis
    up: str  # label of the vertical axis
    index: list[int]
    x: list[float]
    y: list[float]
    names: list[str] = []  # of the examples, where they have names
    total: int  # examples of the data
    colourings: list[Colouring]


class FactorDifference(BaseModel):
    """A level of a factor that is more frequent in a selection than in all points."""

    factor: str
    level: int
    level_name: str
    share: float
    overall: float


class LatentDifference(BaseModel):
    """The difference between a latent's mean in a selection and in all points."""

    number: int
    mean: float
    overall: float
    deviations: float  # in standard deviations of all points


class ColumnDifference(BaseModel):
    """The difference between a column's mean in a selection and in all points."""

    name: str
    mean: float
    overall: float
    deviations: float


class Selection(BaseModel):
    """What distinguishes selected points."""

    count: int
    picture: str  # their mean image
    factors: list[FactorDifference]  # largest difference first
    latents: list[LatentDifference]
    columns: list[ColumnDifference] = []  # of a table


class ScoreLine(BaseModel):
    """A score with those of reference codes."""

    name: str  # as in scores.json: "mig", "dci.completeness"
    title: str
    value: float
    better: str  # "higher" or "lower"; "" for values that are not scores, such as a standard error
    references: dict[str, float]  # perfect, rotated, random
    question: str  # that it answers
    card: bool  # whether it is a metric's headline, to be shown large
    place: float | None  # from noise (0) to the true factors (1); None without references
    rotated: float | None  # where the rotated factors lie
    note: str = ""  # why it cannot be relied on, if so


class FactorTable(BaseModel):
    """What every latent knows of every factor, and the stored scores."""

    factors: list[str]
    latents: list[int]  # rows, as in RunSummary
    matrix: list[list[float]]  # shares of a factor's entropy
    scores: list[ScoreLine]
    note: str  # why there are no factors or no scores, or ""


class StudySection(BaseModel):
    """A part of a study's report: sentences, a table or a figure."""

    name: str
    title: str
    note: str
    points: list[str]  # sentences of a list
    header: list[str]
    rows: list[list[str]]
    best: list[tuple[int, int]]  # rows and columns of cells to emphasise
    folded: bool  # the table is folded away
    figure: bool  # whether there is a figure of this name


class StudyColumn(BaseModel):
    """A column of a table of runs."""

    name: str
    title: str
    kind: Literal["name", "parameter", "score", "time"]
    unit: str = ""
    decimals: int = 0  # of its numbers
    better: str = ""  # "higher" or "lower", of a score
    shown: bool  # until the reader chooses


class StudyTable(BaseModel):
    """The runs of a study, or all runs, as a table."""

    title: str
    about: list[str]  # sentences on what it holds and what is missing
    columns: list[StudyColumn]
    rows: list[list[str | float | None]]
    runs: list[str]  # the name of each row's run, "" if it is not here


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
