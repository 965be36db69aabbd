"""Views of values: other dims, orders, parts, and several values as one."""

from choices import Choices
from document import WHOLE, sizes


class Views(Choices):
    """Draws views."""

    def view(self, scope):
        """A view of a value."""
        value = self.operand(scope, lambda v: v.shape)
        if value is None:
            return None
        ways = (
            *(self.unsqueeze, self.permute, self.squeeze, self.subscript, self.expand),
            *(self.select, self.cut, self.cat, self.stack, self.flip, self.roll, self.pad),
            *(self.repeat, self.split, self.join, self.reshape),
        )
        return self.pick(ways)(scope, value)

    def unsqueeze(self, scope, value):
        if len(value.shape) > 3:
            return None
        dim = self.number(0, len(value.shape))
        new = (*value.shape[:dim], 1, *value.shape[dim:])
        return scope.node("aten.unsqueeze.default", [value.ref, dim], value.dtype, new)

    def subscript(self, scope, value):
        if len(value.shape) > 3:
            return None
        dim = self.number(0, len(value.shape))
        index = [WHOLE] * len(value.shape)
        index.insert(dim, None)
        new = (*value.shape[:dim], 1, *value.shape[dim:])
        return scope.node("tile.subscript", [value.ref, index], value.dtype, new)

    def permute(self, scope, value):
        rank = len(value.shape)
        if rank == 1:
            return None
        dims = self.permutation(rank)
        new = tuple(value.shape[d] for d in dims)
        if rank == 2 and self.chance(30):
            return scope.node("aten.t.default", [value.ref], value.dtype, value.shape[::-1])
        return scope.node("aten.permute.default", [value.ref, dims], value.dtype, new)

    def squeeze(self, scope, value):
        ones = [i for i, s in enumerate(value.shape) if s == 1]
        if not ones or len(value.shape) == 1:
            return None
        dim = self.pick(ones)
        new = (*value.shape[:dim], *value.shape[dim + 1 :])
        return scope.node("aten.squeeze.dim", [value.ref, dim], value.dtype, new)

    def expand(self, scope, value):
        ones = [i for i, s in enumerate(value.shape) if s == 1]
        if not ones:
            return None
        dim = self.pick(ones)
        symbols = [s for s in scope.symbols if s not in value.shape]
        size = self.pick((*symbols, *self.wholes))
        new = (*value.shape[:dim], size, *value.shape[dim + 1 :])
        if not self.fits(new) or (size in value.shape and isinstance(size, str)):
            return None
        return scope.node("aten.expand.default", [value.ref, sizes(new)], value.dtype, new)

    def whole_dim(self, value):
        """A dim of a known size, or None."""
        found = [i for i, s in enumerate(value.shape) if isinstance(s, int)]
        return self.pick(found) if found else None

    def select(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None or len(value.shape) == 1:
            return None
        at = self.pick((0, value.shape[dim] - 1, value.shape[dim] // 2))
        new = (*value.shape[:dim], *value.shape[dim + 1 :])
        return scope.node("aten.select.int", [value.ref, dim, at], value.dtype, new)

    def cut(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None or value.shape[dim] < 2:
            return None
        size = value.shape[dim]
        start = self.pick((0, size // 2, 1))
        end = self.pick([e for e in (size, size // 2, start + 1) if e > start])
        step = self.pick((1, 1, 2))
        new = (*value.shape[:dim], -(-(end - start) // step), *value.shape[dim + 1 :])
        args = [value.ref, dim, start, end, step]
        return scope.node("aten.slice.Tensor", args, value.dtype, new)

    def cat(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None:
            return None
        size = self.pick((value.shape[dim], 1, 128, 7))
        shape = (*value.shape[:dim], size, *value.shape[dim + 1 :])
        new = (*value.shape[:dim], size + value.shape[dim], *value.shape[dim + 1 :])
        if not self.fits(new):
            return None
        same = [v for v in scope.pool if (v.dtype, v.shape) == (value.dtype, shape)]
        other = self.pick(same) if same else self.load(scope, shape, value.dtype)
        both = [value.ref, other.ref][:: self.pick((1, -1))]
        return scope.node("aten.cat.default", [both, dim], value.dtype, new)

    def stack(self, scope, value):
        if len(value.shape) > 3:
            return None
        dim = self.number(0, len(value.shape))
        new = (*value.shape[:dim], 2, *value.shape[dim:])
        if not self.fits(new):
            return None
        other = self.like_exactly(scope, value)
        args = [[value.ref, other.ref], dim]
        return scope.node("aten.stack.default", args, value.dtype, new)

    def like_exactly(self, scope, value):
        """A value of the same type."""
        same = [v for v in scope.pool if (v.dtype, v.shape) == (value.dtype, value.shape)]
        return self.pick(same) if self.chance(70) else self.load(scope, value.shape, value.dtype)

    def flip(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None:
            return None
        return scope.node("aten.flip.default", [value.ref, [dim]], value.dtype, value.shape)

    def roll(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None:
            return None
        shift = self.pick((1, -1, value.shape[dim] // 2, 128))
        args = [value.ref, [shift], [dim]]
        return scope.node("aten.roll.default", args, value.dtype, value.shape)

    def pad(self, scope, value):
        size = value.shape[-1]
        if not isinstance(size, int):
            return None
        before, after = self.pick((0, 1, 128)), self.pick((1, 0, 128, 7))
        new = (*value.shape[:-1], size + before + after)
        if not self.fits(new):
            return None
        args = [value.ref, [before, after], 0 if value.dtype in ("bool",) else self.pick((0, 2))]
        return scope.node("aten.constant_pad_nd.default", args, value.dtype, new)

    def repeat(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None:
            return None
        times = [1] * len(value.shape)
        times[dim] = self.pick((2, 3))
        new = (*value.shape[:dim], value.shape[dim] * times[dim], *value.shape[dim + 1 :])
        if not self.fits(new):
            return None
        return scope.node("aten.repeat.default", [value.ref, times], value.dtype, new)

    def split(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None or value.shape[dim] < 2:
            return None
        size = self.pick((value.shape[dim] // 2, 1))
        parts = [size, value.shape[dim] - size]
        shapes = [(*value.shape[:dim], p, *value.shape[dim + 1 :]) for p in parts]
        args = [value.ref, parts, dim]
        return scope.several("aten.split_with_sizes.default", args, value.dtype, shapes)

    def join(self, scope, value):
        if len(value.shape) > 3:
            return None
        if value.shape[-1] == 2 and len(value.shape) > 1:
            halves = [value.shape[:-1]] * 2
            return scope.several("tile.split", [value.ref], value.dtype, halves)
        new = (*value.shape, 2)
        if not self.fits(new):
            return None
        other = self.like_exactly(scope, value)
        return scope.node("tile.join", [value.ref, other.ref], value.dtype, new)

    def reshape(self, scope, value):
        dim = self.whole_dim(value)
        if dim is None:
            return None
        size = value.shape[dim]
        if dim and isinstance(value.shape[dim - 1], int) and self.chance(50):
            merged = value.shape[dim - 1] * size
            new = (*value.shape[: dim - 1], merged, *value.shape[dim + 1 :])
        else:
            inner = self.pick([d for d in (128, 64, 3, 1) if size % d == 0] or [1])
            new = (*value.shape[:dim], size // inner, inner, *value.shape[dim + 1 :])
        if len(new) > 4:
            return None
        return scope.node("aten.view.default", [value.ref, sizes(new)], value.dtype, new)
