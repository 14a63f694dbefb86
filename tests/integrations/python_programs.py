# SPDX-License-Identifier: Apache-2.0
"""Ordinary Python programs over BLAS in f32 and f64: NumPy, SciPy, PyTorch, scikit-learn.

usage: python_programs.py PROGRAM RESULTS [served]

Writes every answer to RESULTS (npz); with `served`, of a first round and of one in which Whet serves
some of the products. Under the preload, every step must be seen by Whet as often as its row says: a
number of calls, "some" (as many as the library finds right), or what Whet does not have ("unsupported", "threads").
Prints how many calls Whet saw and served.
"""
import ctypes
import json
import sys
import time
import warnings

import numpy as np

random = np.random.default_rng(20)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


def f64(*shape):
    return random.standard_normal(shape)


def numpy_steps():
    a, b, x, y = f32(131, 140), f32(140, 151), f32(500), f32(400)
    big, wide, batch = f32(400, 500), f32(131, 280), f32(5, 71, 80)
    out = np.full((131, 160), 7, np.float32)
    yield "matmul", 1, lambda: a @ b
    yield "dot", 1, lambda: np.dot(a, b)
    yield "transposes", 1, lambda: np.dot(b.T, a.T)
    yield "strided columns", 1, lambda: wide[:, ::2] @ b  # NumPy copies
    yield "strided rows", 1, lambda: f32(262, 140)[::2] @ b
    yield "negative strides", 1, lambda: a[::-1, ::-1] @ b[::-1]
    yield "broadcast row", 1, lambda: np.broadcast_to(f32(140), (131, 140)) @ b
    yield "into a part of an array", 1, lambda: np.matmul(a, b, out=out[:, :151]) is None or out
    yield "batch", 5, lambda: batch @ f32(5, 80, 90)
    yield "inner", 1, lambda: np.inner(a, b.T)
    yield "tensordot", 1, lambda: np.tensordot(f32(10, 20, 31), f32(31, 20, 40), axes=([1, 2], [1, 0]))
    yield "einsum", 1, lambda: np.einsum("ij,jk->ik", a, b, optimize=True)
    yield "multi_dot", 2, lambda: np.linalg.multi_dot([a, b, f32(151, 70)])
    yield "matrix power", 2, lambda: np.linalg.matrix_power(f32(61, 61) * 0.1, 3)
    yield "matrix times vector", 1, lambda: big @ x
    yield "vector times matrix", 1, lambda: y @ big
    yield "strided vector", 1, lambda: big @ f32(1000)[::2]
    yield "tiny", 0, lambda: f32(20, 20) @ f32(20, 20)
    yield "empty", 0, lambda: f32(400, 0) @ f32(0, 400)
    yield "times its transpose", 0, lambda: a @ a.T  # ssyrk
    yield "solve", 0, lambda: np.linalg.solve(f32(300, 300) + 30 * np.eye(300, dtype=np.float32), f32(300, 8))
    yield "f64 matmul", 1, lambda: f64(131, 140) @ f64(140, 151)
    yield "f64 transposes", 1, lambda: f64(140, 131).T @ f64(151, 140).T
    yield "f64 batch", 5, lambda: f64(5, 71, 80) @ f64(5, 80, 90)
    yield "f64 matrix times vector", 1, lambda: f64(400, 500) @ f64(500)
    yield "f64 vector times matrix", 1, lambda: f64(400) @ f64(400, 500)
    yield "f64 strided vector", 1, lambda: f64(400, 500) @ f64(1000)[::2]
    yield "f64 complex", 0, lambda: (f64(131, 140) + 1j) @ (f64(140, 151) + 1j)
    yield "NaN and infinity", 1, lambda: np.where(f32(131, 140) > 2, np.float32("inf"), a) @ b


def scipy_steps():
    import scipy.linalg
    from scipy.linalg import blas
    a, b, c = (np.asfortranarray(f32(*shape)) for shape in ((131, 140), (140, 151), (131, 151)))
    big, x = np.asfortranarray(f32(400, 500)), f32(500)
    for transposed_a in range(3):
        for transposed_b in range(3):
            yield (f"sgemm {transposed_a}{transposed_b}", 1,
                   lambda ta=transposed_a, tb=transposed_b: blas.sgemm(1.5, a.T if ta else a, b.T if tb else b,
                                                                       trans_a=ta, trans_b=tb))
    yield "sgemm with c", 1, lambda: blas.sgemm(1, a, b, beta=0.5, c=c)
    yield "sgemm alpha 0", 0, lambda: blas.sgemm(0, a, b, beta=0.5, c=c)
    yield "sgemm in place", 1, lambda: blas.sgemm(1, a, b, beta=-1, c=c.copy(order="F"), overwrite_c=1)
    yield "sgemv", 1, lambda: blas.sgemv(2, big, x)
    yield "sgemv transposed", 1, lambda: blas.sgemv(1, big, f32(400), trans=1, beta=0.5, y=f32(500))
    yield "sgemv with increments", 1, lambda: blas.sgemv(1, big, f32(1000), incx=2, y=f32(1200), incy=3, beta=1)
    yield "sgemv backwards", "unsupported", lambda: blas.sgemv(1, big, x, incx=-1)
    wide_a, wide_b, wide_c = (np.asfortranarray(f64(*shape)) for shape in ((131, 140), (140, 151), (131, 151)))
    yield "f64 dgemm", 1, lambda: blas.dgemm(0.1, wide_a, wide_b, beta=0.3, c=wide_c)
    yield "f64 dgemm transposed", 1, lambda: blas.dgemm(1, wide_a.T, wide_b.T, trans_a=1, trans_b=1)
    yield "f64 dgemv", 1, lambda: blas.dgemv(2, np.asfortranarray(f64(400, 500)), f64(500))
    yield "f64 dgemv with increments", 1, lambda: blas.dgemv(1, np.asfortranarray(f64(400, 500)), f64(1000), incx=2,
                                                             y=f64(1200), incy=3, beta=1)
    yield "solve", 0, lambda: scipy.linalg.solve(f32(300, 300) + 30 * np.eye(300, dtype=np.float32), f32(300, 8))
    yield "cholesky", 0, lambda: scipy.linalg.cholesky(f32(200, 200) * 0.01 + 5 * np.eye(200, dtype=np.float32))


def torch_steps():
    import torch
    import torch.nn.functional as functional

    def tensor(*shape):
        return torch.from_numpy(f32(*shape))

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    a, b, big = tensor(131, 140), tensor(140, 151), tensor(400, 500)
    weight = tensor(151, 140)
    yield "mm", 1, lambda: a @ b
    yield "linear", 1, lambda: functional.linear(a, weight, tensor(151))
    yield "addmm", 1, lambda: torch.addmm(tensor(131, 151), a, b, beta=0.5, alpha=2)
    yield "one row", 1, lambda: tensor(1, 500) @ tensor(500, 400)
    yield "transposed views", 1, lambda: weight @ a.t()
    yield "columns", 1, lambda: tensor(131, 280)[:, ::2] @ b
    yield "mv", 1, lambda: big @ tensor(500)
    yield "addmv", 1, lambda: torch.addmv(tensor(400), big, tensor(500), alpha=2, beta=0.5)
    yield "mv of a transpose", 1, lambda: big.t() @ tensor(400)
    yield "mv of a strided vector", 1, lambda: big @ tensor(1000)[::2]
    yield "bmm", 1, lambda: torch.bmm(tensor(5, 71, 80), tensor(5, 80, 90))
    yield "baddbmm", 1, lambda: torch.baddbmm(tensor(5, 71, 90), tensor(5, 71, 80), tensor(5, 80, 90), beta=2)
    yield "bmm of transposes", 1, lambda: torch.bmm(tensor(5, 80, 71).mT, tensor(5, 90, 80).mT)
    yield "einsum", 1, lambda: torch.einsum("bij,bjk->bik", tensor(5, 71, 80), tensor(5, 80, 90))
    yield "1x1 convolution", 1, lambda: functional.conv2d(tensor(1, 64, 28, 28), tensor(64, 64, 1, 1))
    yield "f64 mm", 1, lambda: torch.from_numpy(f64(131, 140)) @ torch.from_numpy(f64(140, 151))
    yield "f64 linear", 1, lambda: functional.linear(*(torch.from_numpy(f64(*s)) for s in ((131, 140), (151, 140), (151,))))
    yield "f64 bmm", 1, lambda: torch.bmm(torch.from_numpy(f64(5, 71, 80)), torch.from_numpy(f64(5, 80, 90)))
    yield "attention", "some", lambda: functional.scaled_dot_product_attention(*(tensor(1, 4, 64, 64) for _ in range(3)))
    yield "empty", 0, lambda: torch.addmm(tensor(400, 400), tensor(400, 0), tensor(0, 400), beta=2)

    def on_two_threads(product):
        torch.set_num_threads(2)
        answer = product()
        torch.set_num_threads(1)
        return answer
    yield "mm on two threads", 1, lambda: on_two_threads(lambda: a @ b)
    yield "bmm on two threads", 1, lambda: on_two_threads(lambda: torch.bmm(tensor(5, 71, 80), tensor(5, 80, 90)))

    def gradient():
        with torch.enable_grad():
            leaf = weight.clone().requires_grad_()
            functional.linear(a, leaf).square().sum().backward()
            return leaf.grad.numpy()
    yield "gradient", 2, gradient


def sklearn_steps():
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    centers = 8 * f32(8, 64)  # far apart: rounding moves no sample to another cluster
    labels = np.arange(4000) % 8
    samples = centers[labels] + f32(4000, 64)
    start = centers + f32(8, 64)
    yield "k-means", "some", lambda: KMeans(8, init=start, n_init=1).fit(samples).cluster_centers_
    yield "PCA", "some", lambda: np.abs(PCA(7, svd_solver="randomized", random_state=0).fit_transform(samples))
    yield "linear regression", "some", lambda: LinearRegression().fit(samples, samples[:, :5]).predict(samples)
    yield "logistic regression", "some", lambda: LogisticRegression(max_iter=30).fit(samples, labels).predict(samples)
    yield "nearest neighbours", "some", lambda: KNeighborsClassifier(3, algorithm="brute").fit(
        samples, labels).predict(samples[:300])  # in f64


class Whet:
    """What libwhet.so has counted, where it is loaded."""

    def __init__(self):
        self.library = ctypes.CDLL(None)
        self.is_here = hasattr(self.library, "whet_report")
        self.seen_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def report(self):
        parts = []
        write = self.seen_type(lambda text, length, user: parts.append(ctypes.string_at(text, length)))
        if self.library.whet_report(b"json", write, None) != 0:
            raise SystemExit("no report")
        return json.loads(b"".join(parts))

    def counts(self):
        report = self.report()
        return {"calls": sum(site["calls"] for site in report["sites"]), **report["bypassed_calls"]}

    def sites_served(self):
        return sum(site["served"] == "whet" for site in self.report()["sites"])

    def check(self, name, expected, before):
        new = {what: count - before[what] for what, count in self.counts().items()}
        if expected == "some":
            right = new["calls"] > 0
        elif isinstance(expected, str):
            right = new["calls"] == 0 and new[expected] == 1
        else:
            right = new == {"calls": expected, "unsupported": 0, "threads": 0, "full": 0}
        if not right:
            raise SystemExit(f"{name}: whet saw {new}, expected {expected}")


STEPS = {"numpy": numpy_steps, "scipy": scipy_steps, "torch": torch_steps, "sklearn": sklearn_steps}
SITES_TO_SERVE = 3
PATIENCE_SECONDS = 120  # on a busy machine


def run_round(program, whet):
    global random
    random = np.random.default_rng(20)
    for name, expected, step in STEPS[program]():
        before = whet.counts() if whet.is_here else None
        answer = step()
        if whet.is_here:
            whet.check(name, expected, before)
        yield name, np.asarray(answer)


def main():
    program, path, *more = sys.argv[1:]
    warnings.simplefilter("ignore")
    whet = Whet()
    answers = {f"first {name}": answer for name, answer in run_round(program, whet)}
    if more:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up and whet.sites_served() < SITES_TO_SERVE:
            list(run_round(program, whet))
        answers.update((f"served {name}", answer) for name, answer in run_round(program, whet))
    np.savez(path, **answers)
    if whet.is_here:
        sites = whet.report()["sites"]
        print(f"calls {sum(site['calls'] for site in sites)} served {sum(site['served_calls'] for site in sites)} "
              f"sites {len(sites)} sites_served {whet.sites_served()}")
        if more and not whet.sites_served():
            raise SystemExit("whet serves nothing")


if __name__ == "__main__":
    main()
