"""Conditional VAE: encoder and decoder know the labels, and the code is what is left."""

from __future__ import annotations

from untwine.parts.labels import Condition
from untwine.registry import model
from untwine.vae import Recipe


@model(
    title="Conditional VAE",
    paper="Sohn et al., 2015",
    url="https://papers.nips.cc/paper/5775-learning-structured-output-representation-using-deep-conditional-generative-models",
    process="z ~ N(0, I), x ~ p(x|z, y) for labels y",
    use="Labels are known and should not be in the code, or samples of a given label are wanted.",
    avoid="New examples come without labels: they are needed to encode.",
    bibtex="""@inproceedings{sohn2015learning,
  title = {Learning Structured Output Representation using Deep Conditional Generative Models},
  author = {Sohn, Kihyuk and Lee, Honglak and Yan, Xinchen},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2015}
}""",
    aliases=("cvae",),
)
def conditional(*, on: str = "") -> Recipe:
    """Tell encoder and decoder the labels, so that the code holds what is left (Sohn et al., 2015).

    L = E_q(z|x,y)[−log p(x|z, y)] + KL(q(z|x, y) ‖ p(z))

    An option of any model: labels y are levels of factors of the data, each as zeros and a one. The
    decoder sees them beside the code, the encoder in one more layer above its features. The prior
    does not depend on y (the paper's network for p(z|y) is left out), so that a code means the same
    under every label, and labels can be swapped. Every likelihood is that of x given y. Samples
    take the levels in turn; `model.given(digit=3)` chooses them, and is also how to encode and
    decode. A level that the training data does not have is refused, and so are models that encode
    inputs of their own, such as the VampPrior, because these have no labels.

    Args:
        on: the factors that are labels, such as digit, or shape+scale; all of them by default.
    """
    return Recipe(condition=Condition(on))
