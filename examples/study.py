# %% [markdown]
# # A study, from question to figure
#
# The question: does a larger weight β separate the factors of the sprites better, and what does it cost?
#
# One training cannot tell. Another seed may give another answer, so every weight is trained several times. A study file
# says what varies; lists are multiplied out.

# %%
import subprocess
import sys
from pathlib import Path

import untwine

quick = "--quick" in sys.argv
Path("weights.yaml").write_text(
    f"""
study: weights
models: {{beta-vae: {{beta: [1, 4, 16]}}}}
data: [sprites(size=16)]
seeds: {2 if quick else 4}
training:
  network: mlp(width=96)
  likelihood: bernoulli(pixels=4096)
  latent: 6
  steps: {10 if quick else 3000}
  lr: 0.001
metrics: [mig, reconstruction, active-units]
examples: {200 if quick else 2000}
"""
)
study = untwine.study.read("weights.yaml")
study

# %% [markdown]
# With `pixels=4096` a weight has the same effect as on the papers' 64-pixel images, although our images have 16 pixels a
# side ([which weight](../how-to/which-model.md#which-weight)).
#
# The file is checked as a whole before anything is trained. `untwine study plan weights.yaml` estimates time and disk
# space, and says which differences so many seeds can show.
#
# Run it in a terminal, `untwine study run weights.yaml`, or from here. (`untwine.study.run(study)` is the same in
# Python. In a script it belongs below `if __name__ == "__main__":`, since workers are new processes.)

# %%
command = [sys.executable, "-m", "untwine", "study", "run", "weights.yaml", "--quiet"]
subprocess.run(command, check=True, capture_output=True).returncode

# %% [markdown]
# Stop it at any time and run the cell again: finished runs are skipped, and others resume. The results are a table with a
# row per run.

# %%
results = untwine.study.results("studies/weights")
results[["setting", "seed", "mig", "reconstruction.squared_error", "active-units"]].head()

# %% [markdown]
# ## The answer
#
# Means and standard deviations over seeds, by weight:

# %%
untwine.plot.by_value("studies/weights", "mig")

# %%
untwine.plot.by_value("studies/weights", "reconstruction.squared_error")

# %% [markdown]
# Every run against its error of reconstruction shows the price:

# %%
untwine.plot.trade_off("studies/weights", "reconstruction.squared_error", ["mig"])

# %% [markdown]
# The error rises with β, clearly. MIG gives no answer: its standard deviations over seeds exceed the differences between
# weights. Four seeds of a short training are too few.
#
# Before you believe a difference, ask whether it is larger than chance. The report compares settings seed by seed, with
# intervals that are corrected for the number of comparisons, and begins with what was learned and what was not.

# %%
page = untwine.study.report("studies/weights")
untwine.study.best("studies/weights", by="mig")

# %% [markdown]
# ## The same from the command line
#
# ```
# untwine study run weights.yaml
# untwine study report weights
# untwine study table weights --latex
# ```
#
# Figures in the report are also SVG and PDF files, ready for a paper. More seeds? Change the number in the file and run
# it again: only the new ones are trained. See [studies](../how-to/studies.md), [pick a weight](../how-to/weights.md) and
# [a cluster](../how-to/cluster.md).
