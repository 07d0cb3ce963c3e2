"""
More rows than one machine
==========================

The Adult census data in partitions of a Dask cluster, as a hospital or a platform has its rows. The
fit goes to the workers, and gives what a local fit gives: under a seed, the same bits.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

from skdpdyn import PrivateLogisticRegression
from skdpdyn.datasets import load_adult
from skdpdyn.preprocessing import BoundsScaler

# %%
# Two workers in this process. In yours, connect to your cluster: ``Client("tcp://scheduler:8786")``.

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)

# %%
# The rows, in five partitions. Yours come from ``dask.array`` or ``dask.dataframe``, and are never
# all in one place. The number of records is public, and with it the sizes of partitions.

adult = load_adult()
columns = make_column_transformer(
    (BoundsScaler(adult.bounds), list(adult.bounds)),
    (OneHotEncoder(categories=list(adult.categories.values())), list(adult.categories)),
    sparse_threshold=0,
)
X = columns.fit_transform(adult.data)[:20_000].astype(np.float32)
y = (adult.target == ">50K").to_numpy()[:20_000]
far_X = da.from_array(X, chunks=(4_000, X.shape[1]))
far_y = da.from_array(y, chunks=4_000)
far_X, far_y = client.persist([far_X, far_y])
print(f"{far_X.npartitions} partitions on {len(client.scheduler_info()['workers'])} workers")

# %%
# One call. What it costs is known before, from public numbers, as ever.

model = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], bounds=None)
model.fit(far_X, far_y)
print("epsilon", round(model.epsilon_, 6))
print("cost as foretold:", model.privacy_ == model.privacy_cost(*X.shape))
accuracy = (model.predict(far_X) == far_y).mean().compute()  # predictions stay on the workers
print(f"accuracy {accuracy:.2f}")

# %%
# A seed, which is for tests and makes a fit not private, shows that both do the same.

seeded = PrivateLogisticRegression(epsilon=1.0, classes=[False, True], bounds=None, random_state=0)
there = seeded.fit(far_X, far_y).coef_.ravel()
here = seeded.fit(X, y).coef_.ravel()
print("on the cluster and in memory, the same bits:", bool(np.array_equal(there, here)))

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
ax.axline((0, 0), slope=1, color="0.7", zorder=0)
ax.plot(here, there, "o", label="the same seed: the same bits")
ax.plot(here, model.coef_.ravel(), "x", label="without a seed: noise of its own")
ax.set(
    xlabel="coefficient of a fit in memory",
    ylabel="coefficient of a fit on the cluster",
    title="Where the rows are makes no difference: 20,000 records, epsilon 1",
)
ax.legend(frameon=False)
plt.show()

client.close()
cluster.close()
