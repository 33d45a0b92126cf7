# %% [markdown]
# # Your own photos to embeddings
#
# From a folder of pictures to a vector for each: to search for similar pictures, to find odd ones, to feed another model.
#
# Any folder will do. So that this page can be run anywhere, it first fills one with faces that untwine draws. With
# photos of your own, start at the next cell.

# %%
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import untwine

quick = "--quick" in sys.argv
folder = Path("photos")
folder.mkdir(exist_ok=True)
drawn = untwine.dataset("faces", count=300, size=32)
for position in range(60 if quick else 300):
    pixels = drawn.take([position])[0].permute(1, 2, 0).mul(255).byte().numpy()
    Image.fromarray(pixels).save(folder / f"face-{position:03}.png")

# %%
photos = untwine.dataset("photos", size=32)
photos

# %% [markdown]
# A plain VAE is a good start for embeddings. `latent` is the length of the vectors. Three hundred pictures are few, so a
# tenth is held out, and training stops when the loss on these no longer falls.

# %%
model = untwine.build("vae", photos, latent=16, width=16, hidden=64)
history = untwine.fit(
    model,
    photos,
    steps=20 if quick else 1500,
    batch=32,
    lr=1e-3,
    validation=0.1,
    patience=15,
    quiet=True,
)
untwine.plot.reconstructions(model, photos)

# %% [markdown]
# ## Vectors
#
# `untwine.codes` gives a table with a row per picture, named by its file. `model.encode` gives the array alone.

# %%
table = untwine.codes(model, photos)
table.iloc[:3, :5]

# %% [markdown]
# ## The nearest pictures
#
# The first picture of each row is the one that was asked for.

# %%
codes = model.encode(photos)
codes = np.asarray(codes)
distance = ((codes[:, None] - codes[None]) ** 2).sum(-1)
nearest = distance[:3].argsort(1)[:, :8]
rows = photos.take(nearest.ravel().tolist()).unflatten(0, nearest.shape)
Image.fromarray(
    np.concatenate(
        [np.concatenate(list(row.permute(0, 2, 3, 1).mul(255).byte().numpy()), 1) for row in rows]
    )
).resize((8 * 64, 3 * 64))

# %% [markdown]
# ## The odd ones
#
# Outliers are the pictures that the model finds least likely.

# %%
untwine.outliers(model, photos).iloc[:5, :3]

# %% [markdown]
# ## The same from the command line
#
# ```
# untwine train vae ./photos --set size=32 --set width=16 --set hidden=64 --latent 16 --steps 1500 --batch 32 --lr 1e-3 --validation 0.1 --patience 15
# untwine encode vae-photos ./photos --out codes.csv
# untwine outliers vae-photos
# ```
#
# New pictures are prepared as those of the training were: [data](../how-to/data.md). To use the model elsewhere, see
# [save and use models](../how-to/models-out.md) and [scikit-learn](../how-to/scikit-learn.md).
