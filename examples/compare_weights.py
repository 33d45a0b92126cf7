"""Train the same model with three weights and see what each does to the scores.

python examples/compare_weights.py [--quick]
"""

import sys

import untwine

steps = 20 if "--quick" in sys.argv else 3000
data = untwine.dataset("sprites", size=32)

for beta in (1, 4, 16):
    run = untwine.plan(
        "beta-vae", "sprites", settings=[f"beta={beta}", "size=32"], steps=steps, lr=1e-3
    )
    path = untwine.run(run, "runs", quiet=True)  # a finished run is reused
    model = untwine.open_run(path).model
    scores = untwine.evaluate(model, data, ["mig", "reconstruction"], n=2000)
    gap, error = scores["mig"].values["mig"], scores["reconstruction"].values["squared_error"]
    print(f"beta {beta:2}: gap {gap:.3f}, squared error {error:.4f}")
