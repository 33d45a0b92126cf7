"""Train the same model with three weights and compare their scores.

python examples/compare_weights.py [--quick]
"""

import sys

import untwine

steps = 20 if "--quick" in sys.argv else 3000

for beta in (1, 4, 16):
    spec = untwine.plan("beta-vae", "sprites", beta=beta, size=32, steps=steps, lr=1e-3)
    path = untwine.run(spec, "runs", quiet=True)  # finished runs are reused
    scores = untwine.evaluate_run(path, ["mig", "reconstruction"], n_examples=2000)
    error = scores["reconstruction"].values["squared_error"]
    print(f"beta {beta:2}: MIG {float(scores['mig']):.3f}, squared error {error:.4f}")
