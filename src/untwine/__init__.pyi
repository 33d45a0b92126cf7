__version__: str

from .data import Dataset as Dataset
from .data import Factors as Factors
from .data import from_arrays as from_arrays
from .errors import DataError as DataError
from .errors import IncompatibleError as IncompatibleError
from .errors import ParameterError as ParameterError
from .errors import RunError as RunError
from .errors import UnknownNameError as UnknownNameError
from .errors import UntwineError as UntwineError
from .records import Batch as Batch
from .records import Draw as Draw
from .records import Latent as Latent
from .records import Sizes as Sizes
from .records import Trace as Trace
from .report import write_report as write_report
from .representation import Representation as Representation
from .runs import open_run as open_run
from .runs import run as run
from .scoring import evaluate as evaluate
from .spec import Run as Run
from .spec import build as build
from .spec import dataset as dataset
from .spec import plan as plan
from .train import fit as fit
from .vae import VAE as VAE
from .vae import Recipe as Recipe
