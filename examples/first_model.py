# %% [markdown]
# # Your first model
#
# Twenty minutes: train a VAE that gives every property of an image a latent of its own, look at what the latents do,
# and score it. Every step is a line of Python; the last section has the commands that do the same.
#
# The data are sprites: white shapes on black, which differ in shape, size, orientation and position. The model is not told
# about these properties.

# %%
import sys

import untwine

steps = 20 if "--quick" in sys.argv else 8000
data = untwine.dataset("sprites", size=16)
data

# %% [markdown]
# `beta-tcvae` is a VAE with a penalty on latents that depend on each other. `network="mlp"` is a small network that
# trains in a minute on 16-pixel images; the default, `conv`, is for larger ones.

# %%
model = untwine.build("beta-tcvae", data, latent=8, beta=3, network="mlp", width=96)
history = untwine.fit(model, data, steps=steps, lr=1e-3, quiet=True)
model

# %% [markdown]
# ## Did it learn?
#
# The loss falls and levels off. `nll` says how well images are reconstructed, `kl` how much the code holds (in nats), and
# `tc` how much the latents depend on each other, plus a constant of its estimator. If `kl` stays near zero, the code holds nothing:
# [what to do](../how-to/problems.md#the-kl-is-near-zero).

# %%
untwine.plot.history(history)

# %% [markdown]
# Properties that the code does not hold are reconstructed blurred. At this weight the model gives up the shape, and keeps
# position and size.

# %%
untwine.plot.reconstructions(model, data)

# %% [markdown]
# ## What do the latents do?
#
# Each row moves one latent and holds the others. The most informative is on top; inactive ones are left out.

# %%
untwine.plot.traversals(model, data)

# %%
untwine.plot.codes(model, data, colour="position x")

# %% [markdown]
# `untwine.open_explorer(model, data)` shows the same with sliders, in a cell of a notebook.
#
# ## How good is it?
#
# Sprites know their true factors, so the code can be scored. Compare each score with those of three reference codes: noise,
# the rotated true factors and the true factors.

# %%
scores = untwine.evaluate(model, data, ["mig", "dci", "reconstruction"], n_examples=2000)
scores

# %%
untwine.plot.scores(scores)

# %% [markdown]
# MIG is far from the reference of perfect codes because shape and orientation are missing.
# [Which score to report](../explanation/which-score.md) says what each number sees.
#
# ## Keep it

# %%
model.save("my-first-model")
same = untwine.load("my-first-model")  # on any machine, without the data
same.encode(data.take([0, 1, 2])).shape

# %% [markdown]
# ## The same from the command line
#
# ```
# untwine train beta-tcvae sprites --name my-first --set size=16 --set beta=3 --network 'mlp(width=96)' --latent 8 --steps 8000 --lr 1e-3
# untwine evaluate my-first
# untwine report my-first
# untwine explore my-first
# ```
#
# Commands take your name for a run, or any part of its directory's name that only one run has.
#
# Next: [your own photos](photos.md), or [a study](study.md) that finds out which weight is best.
