"""torch_xla: models that train, a compiled function, two devices under SPMD."""
import copy
import io

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs

from programs import program
from programs.torch_device import begin, both, close
from programs.torch_eager import normal


def check_plugin():
    pass  # each program begins by itself, since some want two devices


def train(model, make_optimizer, loss, steps=5, rtol=1e-3, atol=1e-4):
    """The same steps on the device and on the processor: losses and all that was learnt."""
    torch.manual_seed(0)
    model = model()
    results = []
    for device in ("xla", "cpu"):
        m = copy.deepcopy(model).to(device)
        o = make_optimizer(m.parameters())
        losses = []
        for k in range(steps):
            o.zero_grad()
            value = loss(m, k, device)
            value.backward()
            o.step()
            torch_xla.sync()
            losses.append(value.detach())
        results.append([torch.stack(losses)] + [v for v in m.state_dict().values()])
    close(results[0], [r.cpu() for r in results[1]], rtol, atol)
    assert results[1][0][-1] < results[1][0][0]


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.05, momentum=0.9)


@program
def mlp():
    """A perceptron of three layers under SGD."""
    begin()
    x, y = normal(40, 32, 10), normal(41, 32, 3)
    train(lambda: nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)), sgd, lambda m, k, d: F.mse_loss(m(x.to(d)), y.to(d)))


@program
def cnn():
    """Convolutions with normalization of the batch, pooling and a classifier."""
    begin()
    x, y = normal(42, 8, 3, 12, 12), torch.arange(8) % 4
    train(lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4)),
          lambda p: torch.optim.SGD(p, 0.01), lambda m, k, d: F.cross_entropy(m(x.to(d)), y.to(d)), steps=3, rtol=5e-3, atol=1e-3)


@program
def transformer_layer():
    """An encoder's layer: attention, normalization, a feed-forward part; with a mask."""
    begin()
    x = normal(43, 4, 6, 16)
    mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
    train(lambda: nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), sgd, lambda m, k, d: m(x.to(d), src_mask=mask.to(d)).square().mean() + m(x.to(d)).abs().mean())


@program
def attention():
    """Scaled products of queries and keys, causal and not."""
    begin()
    q, k, v = normal(44, 2, 4, 7, 8), normal(45, 2, 4, 7, 8), normal(46, 2, 4, 7, 8)
    both(lambda q, k, v: [F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)], q, k, v)


@program
def lstm():
    """Two layers of LSTM in both directions, trained."""
    begin()
    x = normal(47, 5, 3, 6)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(6, 10, 2, bidirectional=True), nn.Linear(20, 2)

        def forward(self, x):
            return self.head(self.rnn(x)[0])

    train(Model, sgd, lambda m, k, d: m(x.to(d)).square().mean() + m(x.to(d))[0].sum() * 0.01)


@program
def embedding():
    """Words looked up, averaged, classified; the gradient of what was looked up twice."""
    begin()
    words, y = torch.tensor([[1, 4, 4, 2], [0, 9, 3, 3], [7, 7, 7, 1]]), torch.tensor([0, 1, 1])

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.norm, self.head = nn.Embedding(10, 6), nn.LayerNorm(6), nn.Linear(6, 2)

        def forward(self, words):
            return self.head(self.norm(self.words(words)).mean(1))

    train(Model, sgd, lambda m, k, d: F.cross_entropy(m(words.to(d)), y.to(d)))


@program
def compiled():
    """torch.compile by openxla: inference twice, and with another shape."""
    begin()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    fast = torch.compile(copy.deepcopy(model).to("xla"), backend="openxla")
    with torch.no_grad():
        for rows in (3, 3, 5):
            x = normal(rows, rows, 8)
            close(fast(x.to("xla")), model(x))


@program
def state():
    """AdamW; values learnt on the device, saved and loaded elsewhere."""
    begin()
    x = normal(48, 16, 5)

    def make(p):
        return torch.optim.AdamW(p, 1e-2, weight_decay=0.1)

    train(lambda: nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.Linear(9, 1)), make, lambda m, k, d: m(x.to(d)).square().mean())
    model = nn.Linear(3, 2).to("xla")
    file = io.BytesIO()
    torch.save({k: v.cpu() for k, v in model.state_dict().items()}, file)
    file.seek(0)
    other = nn.Linear(3, 2)
    other.load_state_dict(torch.load(file))
    close(model(normal(49, 4, 3).to("xla")), other(normal(49, 4, 3)))


@program
def many_steps():
    """Four hundred small steps, most of them found compiled; the last one still right."""
    begin()
    x, w = normal(50, 8, 8), normal(51, 8, 8) * 0.1
    a, b, u, v = x.to("xla"), x, w.to("xla"), w
    for k in range(400):
        a, b = torch.tanh(a @ u) + 0.5 * a, torch.tanh(b @ v) + 0.5 * b
        torch_xla.sync()
    close(a, b)


def mesh():
    begin(2)
    return xs.Mesh(np.arange(2), (2,), ("data",))


@program
def spmd_product():
    """A product whose operands are laid over two devices."""
    m = mesh()
    a, b = normal(52, 8, 6), normal(53, 6, 4)
    x, y = a.to("xla"), b.to("xla")
    xs.mark_sharding(x, m, ("data", None))
    torch_xla.sync()
    close(x @ y, a @ b)
    xs.mark_sharding(y, m, (None, "data"))
    close((x @ y).t(), (a @ b).t())
    assert "devices=[2,1]" in torch_xla._XLAC._get_xla_sharding_spec(x), torch_xla._XLAC._get_xla_sharding_spec(x)


@program
def spmd_training():
    """A perceptron trained with its batch laid over two devices."""
    m = mesh()
    x, y = normal(54, 16, 6), normal(55, 16, 2)

    def loss(model, k, device):
        a = x.to(device)
        if device == "xla":
            xs.mark_sharding(a, m, ("data", None))
        return F.mse_loss(model(a), y.to(device))

    train(lambda: nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)), sgd, loss)


@program
def spmd_copies():
    """What each of two devices holds, and a value that both hold."""
    m = mesh()
    a = normal(56, 4, 6)
    x = a.to("xla")
    xs.mark_sharding(x, m, ("data", None))
    shards = torch_xla._XLAC._get_local_shards([x])[0]
    close([s[0] if isinstance(s, tuple) else s for s in shards], [a[:2], a[2:]])
    both_hold = a.to("xla")
    xs.mark_sharding(both_hold, m, (None, None))
    close(both_hold * 2 + x, a * 3)
