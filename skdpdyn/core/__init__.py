"""Parts of solvers and fits: losses, objectives, noise, rules, budgets in shares."""
