"""Variational autoencoders whose latent space has structure: train, measure, compare, look.

Every public name is listed once, in `__init__.pyi`, and loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.2.0"
