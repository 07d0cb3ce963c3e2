"""Opacus: DP-SGD of a logistic (or linear) model and of a network of one hidden layer.

20 passes, batches of 512, rate 0.5, gradients clipped at 1: its tutorials' sizes, not tuned.
"""

import warnings

import numpy as np
import torch
from opacus import PrivacyEngine

NEEDS = ["torch==2.13.0", "opacus==1.6.0", "pandas"]
MODELS = {"Opacus linear": "add_remove", "Opacus network": "add_remove"}
PACKAGE = "opacus"
PASSES = 20
BATCH = 512
RATE = 0.5
WIDTH = 64


def fitted(name, table, ask):
    """Fit a network by DP-SGD."""
    warnings.simplefilter("ignore")
    torch.manual_seed(ask["seed"])
    binary = table.target_bounds is None
    low, high = (0.0, 1.0) if binary else table.target_bounds
    X = torch.tensor(table.numbers(table.X), dtype=torch.float32)
    y = torch.tensor((table.y - low) / (high - low), dtype=torch.float32)
    if name == "Opacus network":
        first = torch.nn.Linear(X.shape[1], WIDTH)
        layers = torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1))
    else:
        layers = torch.nn.Linear(X.shape[1], 1)
    data = torch.utils.data.TensorDataset(X, y)
    model, optimizer, batches = PrivacyEngine().make_private_with_epsilon(
        module=layers,
        optimizer=torch.optim.SGD(layers.parameters(), lr=RATE),
        data_loader=torch.utils.data.DataLoader(data, batch_size=min(BATCH, len(y))),
        epochs=PASSES,
        target_epsilon=ask["epsilon"],
        target_delta=ask["delta"],
        max_grad_norm=1.0,
    )
    loss = torch.nn.BCEWithLogitsLoss() if binary else torch.nn.MSELoss()
    for _ in range(PASSES):
        for rows, target in batches:
            optimizer.zero_grad()
            loss(model(rows).squeeze(1), target).backward()
            optimizer.step()

    def predict(X):
        with torch.no_grad():
            raw = model(torch.tensor(table.numbers(X), dtype=torch.float32)).squeeze(1)
        raw = raw.double().numpy()
        return 1 / (1 + np.exp(-raw)) if binary else low + (high - low) * raw

    return predict
