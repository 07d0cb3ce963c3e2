"""Accuracy of other libraries on Adult, each in a virtual environment of its own, on the splits of
``accuracy.py``.

Run ``python -m benchmarks rivals_accuracy --directory DIR``: makes the environments in DIR if they
are not there, writes the rows there, and trains

- diffprivlib's LogisticRegression, all defaults: objective perturbation, pure epsilon;
- Opacus' DP-SGD as Yu et al. (2020) set it up, noise by its own accountant under add_remove:
  sampling probability 0.1, 200 steps, clip 1, learning rate 2 (of 2 and 10 the better), halved in
  the middle; delta = 1/n_train^2.

Ours, in the same table: the defaults of noisy gradient descent under both adjacencies.
"""

import argparse
import subprocess
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.accuracy import adult, splits
from benchmarks.rivals import environment

SETUP = """
import sys
import warnings
import numpy as np
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
X, y, train, test = (data[name] for name in ("X", "y", "train", "test"))
epsilon = float(data["epsilon"])
"""

DIFFPRIVLIB = """
from diffprivlib.models import LogisticRegression
model = LogisticRegression(epsilon=epsilon, data_norm=1.0).fit(X[train], y[train])
print(model.score(X[test], y[test]))
"""

OPACUS = """
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
q, n_steps = 0.1, 200
budget = {"target_epsilon": epsilon, "target_delta": 1 / len(train) ** 2}
budget["epsilon_tolerance"] = 0.01 * epsilon
noise = get_noise_multiplier(**budget, sample_rate=q, steps=n_steps, accountant="prv")
rows, target = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
dataset = torch.utils.data.TensorDataset(rows[train], target[train])
loader = torch.utils.data.DataLoader(dataset, batch_size=int(q * len(train)))
model = torch.nn.Linear(X.shape[1], 1)
torch.nn.init.zeros_(model.weight), torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
model, optimizer, loader = PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=1.0
)
loss, done = torch.nn.BCEWithLogitsLoss(), 0
while done < n_steps:
    for one, label in loader:
        optimizer.zero_grad()
        loss(model(one).squeeze(1), label).backward()
        optimizer.step()
        done += 1
        if done == n_steps // 2:
            optimizer.param_groups[0]["lr"] /= 2
        if done == n_steps:
            break
print(float(((model(rows[test]).squeeze(1) > 0) == (target[test] > 0.5)).float().mean()))
"""


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", type=Path, required=True, help="where the environments are, or will be made"
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args(argv)
    rivals = {
        "diffprivlib": (
            environment(
                arguments.directory, "diffprivlib", "diffprivlib==0.6.6", "scikit-learn==1.5.2"
            ),
            DIFFPRIVLIB,
        ),
        "Opacus": (environment(arguments.directory, "opacus", "opacus"), OPACUS),
    }
    problem = adult(None)
    rows, file = normalize(problem.X), arguments.directory / "adult.npz"
    for epsilon in arguments.epsilon:
        scores = {name: [] for name in (*rivals, "ours, replace_one", "ours, add_remove")}
        for train, test in splits(len(rows), arguments.splits):
            np.savez(file, X=rows, y=problem.y, train=train, test=test, epsilon=epsilon)
            for name, (python, program) in rivals.items():
                out = subprocess.run(
                    [python, "-c", SETUP + program, file],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                scores[name].append(float(out.split()[-1]))
            for adjacency in ("replace_one", "add_remove"):
                model = problem.private(epsilon=epsilon, adjacency=adjacency).fit(
                    problem.X[train], problem.y[train]
                )
                scores[f"ours, {adjacency}"].append(model.score(problem.X[test], problem.y[test]))
        for name, reached in scores.items():
            print(
                (
                    f"Adult, epsilon {epsilon:g}: {name:<18} {np.mean(reached):.4f} +- "
                    f"{np.std(reached):.4f}"
                ),
                flush=True,
            )
    file.unlink()
