"""The public row map inside a step: applied to parameters, and back to gradients.

Rows are mapped to scale W x - offset W m. Kernels know two numbers for each row. The rest is the
same for all rows, and done once a step: coefficients W' theta, what m adds to all raw predictions,
and W (G - m T) for the gradient, G the sum of residual * scale * x and T that of residual * offset.
"""

from skdpdyn.kernels.jit import inner


@inner
def map_point(theta, slot, matrix, centre, weights, shift, scratch):
    """Put W' theta where the kernel has its weights, and what the centre adds into ``shift``.

    ``matrix`` is W, or its diagonal as a single row.
    """
    n_features = matrix.shape[1]
    for k in range(shift.size):
        first = k * n_features
        if matrix.shape[0] == 1:
            for j in range(n_features):
                scratch[j] = matrix[0, j] * theta[first + j]
        else:
            for j in range(n_features):
                scratch[j] = 0
            for i in range(n_features):
                t = theta[first + i]
                for j in range(n_features):
                    scratch[j] += matrix[i, j] * t
        total = 0.0
        for j in range(n_features):
            weights[slot[first + j]] = scratch[j]
            total += centre[j] * weights[slot[first + j]]
        shift[k] = -total


@inner
def map_gradient(gradient, slot, n_outputs, matrix, centre, scratch):
    """Replace G by W (G - m T), output by output; T is last in ``gradient``."""
    n_features = matrix.shape[1]
    for k in range(n_outputs):
        first, offset_sum = k * n_features, gradient[gradient.size - n_outputs + k]
        for j in range(n_features):
            scratch[j] = gradient[slot[first + j]] - centre[j] * offset_sum
        for i in range(n_features):
            if matrix.shape[0] == 1:
                gradient[slot[first + i]] = matrix[0, i] * scratch[i]
            else:
                total = 0.0
                for j in range(n_features):
                    total += matrix[i, j] * scratch[j]
                gradient[slot[first + i]] = total
