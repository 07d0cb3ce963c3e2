"""What solvers and fits are made of: losses, objectives, noise, rules, budgets in shares."""
