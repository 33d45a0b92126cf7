"""VAE: the evidence lower bound and nothing else."""

from __future__ import annotations

from untwine.registry import model
from untwine.vae import Recipe


@model(
    title="VAE",
    paper="Kingma and Welling, 2014",
    url="https://arxiv.org/abs/1312.6114",
    use="A baseline, embeddings, and data whose structure is unknown.",
    avoid="Single latents should mean something: nothing asks them to.",
    bibtex="""@inproceedings{kingma2014auto,
  title = {Auto-Encoding Variational Bayes},
  author = {Kingma, Diederik P. and Welling, Max},
  booktitle = {International Conference on Learning Representations},
  year = {2014}
}""",
)
def vae() -> Recipe:
    """Maximise the evidence lower bound (Kingma and Welling, 2014).

    L = E_q(z|x)[−log p(x|z)] + KL(q(z|x) ‖ N(0, I))

    The representation is the posterior mean; samples are decoder means of z ~ N(0, I).
    """
    return Recipe()
