"""The slots hold what the next papers need: one sketch of a paper for each kind of part.

These are proofs that the design fits, not the papers' models: small, trained for a few steps.
"""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import untwine
from untwine import Batch, Draw, IncompatibleError, Latent, Recipe, Sizes
from untwine.distributions import Gaussian
from untwine.likelihoods.basic import bernoulli
from untwine.networks.mlp import mlp
from untwine.parts.defaults import GaussianPosterior, StandardNormal, divergence
from untwine.parts.schedules import linear
from untwine.parts.terms import KL
from untwine.slots import AdversarialTerm, Corruption, Latents, Mapping, Posterior, Prior, Term


class Tiles(Corruption):
    """Jigsaw: shuffle quarters, per example; the target stays whole."""

    def __init__(self, sizes):
        super().__init__()

    def corrupt(self, x):
        b, c, h, w = x.shape
        tiles = x.view(b, c, 2, h // 2, 2, w // 2).permute(0, 2, 4, 1, 3, 5).reshape(b, 4, -1)
        order = torch.rand(b, 4, device=x.device).argsort(1)
        tiles = tiles.gather(1, order[..., None].expand_as(tiles))
        tiles = tiles.view(b, 2, 2, c, h // 2, w // 2).permute(0, 3, 1, 4, 2, 5)
        return tiles.reshape(x.shape), x


class Mixture:
    """A density: an even mixture of Gaussians (K, D)."""

    def __init__(self, parts):
        self.parts = parts

    def log_prob(self, z):
        return self.parts.log_prob(z[..., None, :]).logsumexp(-1) - math.log(len(self.parts.mean))

    def sample(self, shape=()):
        pick = torch.randint(len(self.parts.mean), shape)
        return Gaussian(self.parts.mean[pick], self.parts.logvar[pick]).sample()


class PseudoInputs(Prior):
    """VampPrior: the mixture of the posteriors of trainable inputs."""

    def __init__(self, sizes):
        super().__init__()
        self.u = nn.Parameter(torch.rand(5, *sizes.shape))

    def forward(self, encode):
        q = encode(self.u).q
        if not isinstance(q, Gaussian):
            raise IncompatibleError("this prior needs a posterior with a density at any point")
        return Mixture(q)


class Planar(Posterior):
    """A flow: samples with their log-density, and no density elsewhere."""

    def __init__(self, sizes):
        super().__init__()
        self.base = GaussianPosterior(sizes)
        self.u = nn.Parameter(torch.randn(sizes.latent) * 0.1)

    def forward(self, h):
        draw = self.base(h)
        a = torch.tanh(draw.z.sum(-1, keepdim=True))
        log_det = (1 + (1 - a.square()) * self.u.sum()).abs().log().squeeze(-1)
        return Draw(draw.z + self.u * a, draw.mean, None, draw.log_q - log_det)


class Shared(Latents):
    """ML-VAE: style per example, content per group as a product of experts."""

    def __init__(self, sizes):
        super().__init__()
        self.style, self.content = GaussianPosterior(sizes), GaussianPosterior(sizes)
        self.prior = StandardNormal(sizes)
        self.out_features = 2 * sizes.latent

    def forward(self, h, batch, encoder, *, mean):
        everyone = torch.arange(len(h)) if batch.group is None else batch.group
        rows = everyone.unique(return_inverse=True)[1]
        q, p = self.content(h).q, self.prior(encoder)
        precision = torch.zeros(int(rows.max()) + 1, q.mean.shape[1])
        precision = precision.index_add(0, rows, (-q.logvar).exp())
        weighted = torch.zeros_like(precision).index_add(0, rows, q.mean * (-q.logvar).exp())
        group = Gaussian(weighted / precision, -precision.log())
        content = Draw(group.sample(), group.mean, group)
        style = self.style(h)
        return {
            "style": Latent(style, divergence(style, p), p),
            "content": Latent(content, divergence(content, p), p, rows=rows),
        }

    def sample(self, n, encoder):
        return torch.cat([self.prior(encoder).sample((n,)) for _ in range(2)], -1)


class Clustered(Latents):
    """A mixture with its component summed out, recorded but not decoded."""

    def __init__(self, sizes):
        super().__init__()
        self.z, self.parts = GaussianPosterior(sizes), nn.Parameter(torch.randn(3, sizes.latent))
        self.out_features = sizes.latent

    def forward(self, h, batch, encoder, *, mean):
        draw = self.z(h)
        parts = Gaussian(self.parts, torch.zeros_like(self.parts))
        weight = parts.log_prob((draw.mean if mean else draw.z)[:, None]).softmax(-1)
        each = Gaussian(draw.q.mean[:, None], draw.q.logvar[:, None]).kl(parts)
        cluster = Latent(Draw(weight, weight), torch.zeros(len(h)), feeds_decoder=False)
        return {"z": Latent(draw, (weight * each).sum(-1), Mixture(parts)), "c": cluster}

    def sample(self, n, encoder):
        return Mixture(Gaussian(self.parts, torch.zeros_like(self.parts))).sample((n,))


class Gate(Mapping):
    """InteL-VAE's sparse mapping: its gate is a fact that its own term reads."""

    def __init__(self, sizes):
        super().__init__()
        self.out_features = sizes.latent
        self.gate = nn.Linear(sizes.latent, sizes.latent)

    def forward(self, z):
        gate = self.gate(z).sigmoid()
        return z * gate, {"gate": gate}


class GateEntropy(Term):
    def forward(self, trace):
        if "gate" not in trace.extras:
            raise IncompatibleError("GateEntropy needs a mapping that reports a gate")
        return torch.special.entr(trace.extras["gate"]).sum(-1)


class DensityRatio(AdversarialTerm):
    """FactorVAE: a classifier tells codes from codes with shuffled dimensions."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.net = nn.Sequential(nn.Linear(sizes.latent, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, trace):
        joint, product = self.net(trace.z).unbind(-1)
        return joint - product

    def adversary_loss(self, z, other):
        shuffled = torch.stack([column[torch.randperm(len(column))] for column in other.T], 1)
        label = torch.zeros(len(z), dtype=torch.long)
        real, fake = self.net(z), self.net(shuffled)
        return (F.cross_entropy(real, label) + F.cross_entropy(fake, label + 1)) / 2


class Capacity(Term):
    """AnnealedVAE: the distance of the KL to a capacity that grows with the step."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.kl, self.target = KL(sizes), linear(0.0, 5.0, 10)

    def forward(self, trace):
        return (self.kl(trace) - self.target(trace.batch.step)).abs()


class Pairs(Term):
    """NestedVAE: a term that owns a network and reads pairs from the groups."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.net = nn.Linear(sizes.latent, sizes.latent)

    def forward(self, trace):
        if trace.batch.group is None:
            raise IncompatibleError("Pairs needs groups")
        same = trace.batch.group[:, None] == trace.batch.group[None]
        first, second = same.triu(1).nonzero(as_tuple=True)
        return (trace.z[second] - self.net(trace.z[first])).square().sum(-1)


RECIPES = {
    "jigsaw": Recipe(corruption=Tiles),
    "vamp-prior": Recipe(prior=PseudoInputs),
    "flow": Recipe(posterior=Planar),
    "ml-vae": Recipe(latents=Shared),
    "clusters": Recipe(latents=Clustered),
    "sparse": Recipe(mapping=Gate, terms={"gate": (1.0, GateEntropy)}),
    "factor-vae": Recipe(terms={"tc": (10.0, DensityRatio)}),
    "annealed": Recipe(terms={"kl": (100.0, Capacity)}),
    "warm-up": Recipe(terms={"kl": (linear(0.0, 1.0, 10), KL)}),
    "nested": Recipe(terms={"nested": (1.0, Pairs)}),
}


@pytest.fixture(scope="module")
def grouped(tiny):
    return replace(tiny, groups=torch.arange(len(tiny)) % 7)


def make(recipe, data, n_train=100):
    sizes = Sizes(data.shape, latent=3, n_train=n_train)
    return recipe.build(sizes, mlp(width=16), bernoulli())


@pytest.mark.parametrize("name", RECIPES)
def test_each_kind_of_part_trains_encodes_and_generates(name, grouped):
    model = make(RECIPES[name], grouped)
    history = untwine.fit(model, grouped, steps=30, batch=16, lr=3e-3, quiet=True)
    assert all(math.isfinite(value) for row in history for value in row.values())
    x = grouped.take([1, 2, 3])
    assert torch.equal(model.encode(x), model.encode(x))
    assert model.sample(4).shape == (4, *grouped.shape)


@pytest.mark.parametrize("first", RECIPES)
@pytest.mark.parametrize("second", RECIPES)
def test_every_two_parts_train_together_or_say_why_not(first, second, grouped):
    try:
        model = make(RECIPES[first] | RECIPES[second], grouped)
    except IncompatibleError as refusal:
        assert len(str(refusal)) > 20
    else:
        history = untwine.fit(model, grouped, steps=2, batch=8, quiet=True)
        assert math.isfinite(history[-1]["loss"])


def test_four_papers_in_one_model(grouped):
    recipe = RECIPES["jigsaw"] | RECIPES["vamp-prior"] | RECIPES["sparse"] | RECIPES["factor-vae"]
    model = make(recipe, grouped)
    assert untwine.fit(model, grouped, steps=20, batch=16, quiet=True)[-1]["step"] == 20


def test_two_claims_on_one_slot_are_refused():
    with pytest.raises(IncompatibleError, match=r"both recipes set \['corruption'\]"):
        RECIPES["jigsaw"] | RECIPES["jigsaw"]


def test_latents_and_a_prior_are_refused():
    with pytest.raises(IncompatibleError, match="replaces all latents"):
        RECIPES["ml-vae"] | RECIPES["vamp-prior"]


def test_a_prior_made_of_posteriors_refuses_a_flow_at_build(grouped):
    with pytest.raises(IncompatibleError, match="density at any point"):
        make(RECIPES["vamp-prior"] | RECIPES["flow"], grouped)


def test_the_kl_of_a_group_counts_once(grouped):
    model = make(RECIPES["ml-vae"], grouped)
    trace = model.trace(Batch(grouped.take([0, 1, 2, 3]), torch.tensor([0, 0, 0, 1])))
    assert trace.latents["content"].kl.shape == (2,)
    assert trace.latents["content"].per_example().shape == (4, 3)


def test_a_term_that_needs_a_density_names_itself_when_there_is_none(grouped):
    from untwine.models import beta_tcvae

    with pytest.raises(IncompatibleError, match="KLPart needs one latent per example"):
        make(RECIPES["flow"] | beta_tcvae(), grouped)


def test_the_gradient_of_an_adversary_never_reaches_the_model(grouped):
    torch.manual_seed(0)
    plain = make(Recipe(), grouped)
    weights = plain.state_dict()
    rival = make(Recipe(terms={"tc": (0.0, DensityRatio)}), grouped)
    rival.load_state_dict(weights, strict=False)
    options = {"steps": 1, "batch": 8, "quiet": True}
    untwine.fit(plain, grouped, **options)
    untwine.fit(rival, grouped, **options)
    for name, value in plain.state_dict().items():
        assert torch.equal(value, rival.state_dict()[name])


def test_the_adversary_learns_with_its_own_optimiser(grouped):
    model = make(RECIPES["factor-vae"], grouped)
    before = [p.clone() for p in model.objective.terms["tc"].parameters()]
    untwine.fit(model, grouped, steps=2, batch=8, quiet=True)
    after = model.objective.terms["tc"].parameters()
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_schedule_follows_the_step(grouped):
    model = make(RECIPES["warm-up"], grouped)
    start = model.objective(model.trace(Batch(grouped.take([0, 1]))))
    assert torch.allclose(start["loss"], start["nll"])
