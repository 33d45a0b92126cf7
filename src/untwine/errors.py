"""All errors, in one tree. Every message says what is wrong and what to write instead.

UntwineError
├── UnknownNameError    no model, metric, dataset or parameter of that name
├── ParameterError      a parameter has a value it cannot have
├── IncompatibleError   two pieces that cannot be used together
├── DataError           data that is missing, unreadable or of the wrong shape
├── MissingLibraryError an optional library is not installed
└── RunError            a run that is locked, damaged or has diverged
    ├── DamagedFile     a file of a run, study or cache is not as it was written
    └── RunLocked       another process is working on the run
"""


class UntwineError(ValueError):
    """The root of all errors that untwine raises deliberately."""


class UnknownNameError(UntwineError):
    """No model, metric, dataset or parameter of that name."""


class ParameterError(UntwineError):
    """A parameter has a value it cannot have."""


class IncompatibleError(UntwineError):
    """Two pieces that cannot be used together."""


class DataError(UntwineError):
    """Data that is missing, unreadable or of the wrong shape."""


class MissingLibraryError(UntwineError, ImportError):
    """An optional library is not installed."""


class RunError(UntwineError):
    """A run that is locked, damaged or has diverged."""


class RunLocked(RunError):
    """Another process is working on the run."""


class DamagedFile(RunError):
    """A file of a run, study or cache is not as it was written."""
