"""torch_xla: single operators and gradients."""
import torch
import torch.nn.functional as F
import torch_xla

from programs import program
from programs.torch_device import begin, both, close


def check_plugin():
    begin()


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@program
def tensors():
    """To the device and back: types, empty, scalar, strided."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float64, torch.complex64):
        value = torch.arange(12).reshape(3, 4).to(dtype)
        assert torch.equal(value.to("xla").cpu(), value), dtype
    for value in (torch.zeros(0, 3), torch.tensor(2.5), normal(1, 4, 5).t(), normal(1, 9)[::2], normal(2, 500, 600)):
        assert torch.equal(value.to("xla").cpu(), value)


@program
def elementwise():
    """Arithmetic, functions, comparisons, selection, several steps on one tensor."""
    both(lambda x, y: [x * y - x / (1 + y.abs()), x.exp(), torch.tanh(x), torch.erf(y), torch.sigmoid(x), F.gelu(x), torch.where(x > y, x, -y), x.clamp(-0.5, 0.5),
                       torch.atan2(x, y), x.pow(3), (x > y), x.round(), x.abs().sqrt(), torch.fmod(x, 0.3), F.softplus(x), F.leaky_relu(y)], normal(3, 5, 7), normal(4, 5, 7))


@program
def matmul():
    """Matrices, batches, vectors, outer products, einsum, bias."""
    both(lambda a, b, v: [a @ b, a.t() @ a, a @ v, torch.outer(v, v), torch.einsum("ij,jk->ki", a, b), torch.addmm(b, a.t() @ a, b)], normal(5, 6, 8), normal(6, 8, 4), normal(7, 8))
    both(torch.bmm, normal(8, 3, 4, 5), normal(9, 3, 5, 6))


@program
def reductions():
    """Sums, means, extremes, norms, cumulative ones, softmax."""
    both(lambda x: [x.sum(), x.mean(0), x.amax(1), x.argmax(1), x.argmin(0), x.var(1), x.std(), x.prod(1), x.norm(), x.cumsum(1), x.logsumexp(1), F.softmax(x, 1),
                    F.log_softmax(x, 0), x.any(1), (x > 0).all(), x.median()], normal(10, 6, 9))


@program
def transposed():
    """Column-major tensors, copied to the CPU and computed with."""
    both(lambda w: w.t(), normal(11, 10, 32))
    both(lambda w: w.permute(2, 0, 1), normal(12, 3, 4, 5))
    both(lambda w, x: (x @ w.t()).t(), normal(13, 10, 32), normal(14, 7, 32))
    both(lambda x: x.transpose(0, 1).contiguous().view(-1), normal(15, 4, 6))
    both(lambda x: x.to(memory_format=torch.channels_last) * 2, normal(16, 2, 3, 4, 5))


@program
def indexing():
    """Slices, gather, scatter, index_put, concatenation, padding, masks, data-dependent sizes."""
    both(lambda x: [x[1:5, ::2], x[:, -1], x[[3, 0, 3]], torch.cat([x, x * 2], 1), torch.stack([x, x]), x.flip(1), x.roll(2, 0), F.pad(x, (1, 2, 0, 1)), x.repeat(2, 1),
                    x.unfold(1, 3, 2), torch.tril(x), x.reshape(3, -1), x.expand(2, 6, 8), x.chunk(2)[1]], normal(17, 6, 8))
    i = torch.tensor([[0, 3, 2], [5, 5, 1]])
    both(lambda x, i: [x.gather(0, i), torch.zeros(6, 8, device=x.device).scatter_add(0, i, x[:2, :3]), x.index_select(0, i[1]), x.masked_fill(x > 0, 1.0)], normal(18, 6, 8), i)

    def put(x, i):
        y = x.clone()
        y[i[0]] = 7.0
        y[2, 1:4] += 1
        return y

    both(put, normal(19, 6, 8), i)
    both(lambda x: [(x > 0.5).nonzero(), x[x > 0.5]], normal(20, 6, 8))


@program
def autograd():
    """Gradients through functions, products and a reused tensor; a second derivative; a function of one's own."""
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g.clamp(-0.5, 0.5)

    def gradients(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (torch.tanh(x @ w).pow(2).sum() + (Clip.apply(x) * 3).sum() + (x * x).sum()).backward()
        y = x.detach().requires_grad_()
        first, = torch.autograd.grad((y ** 3).sum(), y, create_graph=True)
        second, = torch.autograd.grad(first.sum(), y)
        return [x.grad, w.grad, second]

    both(gradients, normal(21, 4, 6), normal(22, 6, 3))


@program
def in_place():
    """Tensors updated in place and through views, with many steps between two reads."""
    def change(x):
        y = x.clone()
        row = y[2]
        for k in range(10):
            y.add_(0.1).mul_(1.01)
            row.sub_(k)
            y[:, 1].zero_()
        return [y, row]

    both(change, normal(23, 4, 5))
    x = torch.ones(3, device="xla")
    for k in range(5):
        x += k
        torch_xla.sync()
    close(x, torch.full((3,), 11.0))


@program
def random():
    """A seed gives the same numbers again; their moments."""
    def draw():
        torch_xla.manual_seed(5)
        return torch.randn(20000, device="xla").cpu(), torch.rand(20000, device="xla").cpu(), torch.randint(0, 5, (20000,), device="xla").cpu()

    first = draw()
    close(list(draw()), list(first), 0, 0)
    n, u, i = first
    close(torch.stack([n.mean(), n.std(), u.mean(), u.var()]), torch.tensor([0, 1, 0.5, 1 / 12]), 0.05, 0.03)
    close(torch.bincount(i).float() / 20000, torch.full((5,), 0.2), 0.1, 0)
    kept = F.dropout(torch.ones(10000, device="xla"), 0.3).cpu()
    assert abs((kept == 0).float().mean() - 0.3) < 0.03 and torch.allclose(kept[kept != 0], torch.tensor(1 / 0.7))


@program
def small_types():
    """bfloat16, half and integers in arithmetic; conversions."""
    x = normal(24, 16, 16)
    both(lambda x: [x.bfloat16(), x.half(), (x * 20).to(torch.int8), (x * 50).long(), x.double(), (x > 0).int()], x)
    both(lambda x: (x @ x).float(), x.bfloat16(), rtol=2e-2, atol=2e-2)
    n = torch.arange(-8, 8)
    # A negative number is not shifted right here: torch_xla divides instead, on its own backend as well.
    both(lambda n: [n // 3, n % 3, n << 2, n.abs() >> 1, n & 6, n ^ 5, ~n, n * 2 ** 40], n)


@program
def sorting():
    """Sorting, the largest, ranks, where a value belongs."""
    x = normal(25, 5, 31)
    both(lambda x: [*x.sort(1), *x.topk(4, 1), x.argsort(0), x.sort(1, descending=True)[0], *x.max(1), *x.kthvalue(3, 1)], x)


@program
def convolution():
    """One and two dimensions, strides, groups, the transpose, pooling; gradients."""
    x, w = normal(26, 2, 4, 9, 10), normal(27, 6, 4, 3, 3)

    def layers(x, w, one, thin):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.conv2d(x, w, stride=2, padding=1)
        y.square().sum().backward()
        return [y, x.grad, w.grad, F.conv2d(x, thin, groups=4, dilation=2), F.conv_transpose2d(y, w, stride=2), F.conv1d(x[:, :, 0], one), F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1),
                F.adaptive_avg_pool2d(x, 1), F.interpolate(x, scale_factor=2)]

    both(layers, x, w, normal(28, 3, 4, 5), normal(29, 8, 1, 3, 3), rtol=1e-3, atol=1e-3)


@program
def linear_algebra():
    """What torch_xla leaves to XLA's own decompositions: Cholesky, QR, triangular solves, singular values, eigenvalues."""
    a = normal(30, 5, 5)
    s = a @ a.t() + torch.eye(5)
    both(lambda s, b: [torch.linalg.cholesky(s), torch.linalg.solve_triangular(torch.tril(s), b, upper=False)], s, normal(31, 5, 2), rtol=1e-3, atol=1e-4)
    q, r = torch.linalg.qr(a.to("xla"))
    close(q @ r, a, 1e-3, 1e-4)
    close(q.t() @ q, torch.eye(5), 1e-3, 1e-4)
    close(torch.linalg.svdvals(a.to("xla")), torch.linalg.svdvals(a), 1e-3, 1e-4)
    close(torch.linalg.eigvalsh(s.to("xla")), torch.linalg.eigvalsh(s), 1e-3, 1e-4)
    close(torch.linalg.inv(s.to("xla")), torch.linalg.inv(s), 1e-3, 1e-4)
