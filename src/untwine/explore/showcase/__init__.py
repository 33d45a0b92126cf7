"""Trained models that come with untwine, for a first look: `untwine explore --showcase`.

They are finished runs without their data, which untwine draws itself or finds in scikit-learn.
`examples/train_showcase.py` trains them.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
OPENING = "beta-tcvae-shapes3d-render-857095274886"  # in colour, and with the most factors known
