"""β-VAE: weight the KL."""

from __future__ import annotations

from untwine.parts.terms import KL
from untwine.registry import model
from untwine.schema import NonNegative
from untwine.vae import Recipe


@model(
    title="β-VAE",
    paper="Higgins et al., 2017",
    url="https://openreview.net/forum?id=Sy2fzU9gl",
    use="The simplest way to separate factors, and the baseline of all others.",
    avoid="Details matter: β takes information from every latent, needed or not.",
    bibtex="""@inproceedings{higgins2017beta,
  title = {beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework},
  author = {Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and
    Glorot, Xavier and Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander},
  booktitle = {International Conference on Learning Representations},
  year = {2017}
}""",
)
def beta_vae(*, beta: NonNegative = 4.0) -> Recipe:
    """Press the posterior towards the prior with weight β (Higgins et al., 2017).

    L = E_q(z|x)[−log p(x|z)] + β KL(q(z|x) ‖ N(0, I))

    β has the paper's meaning because pixels and latents are summed; it depends on the likelihood.

    Args:
        beta: weight of the KL; 1 is the VAE, the 2019 study takes 1 to 16, the paper 4 on shapes.
    """
    return Recipe(terms={"kl": (beta, KL)})
