"""Random choices, and the sizes that documents are made of."""

from document import count

OUTER = (2, 1, 3, 5)
ROWS = (16, 64, 128, 1, 7, 127, 129, 256, 255, 257, 300, 421)
LANES = (128, 256, 1, 7, 127, 129, 255, 257, 300, 384, 421)
WHOLES = (128, 256, 64, 1, 7, 129, 300)
ROLES = {"outer": OUTER, "point": OUTER, "row": ROWS, "lane": LANES}
MOST_ELEMENTS = 1 << 17
MOST_STEPS = 40


class Choices:
    """Draws from a random.Random; the base of the classes that draw parts of a document."""

    def __init__(self, random, out):
        self.random, self.out = random, out
        self.loops, self.branches, self.wholes, self.earlier = 0, 0, [], []
        self.scattered = False

    def pick(self, options):
        """One of `options`."""
        return self.random.choice(list(options))

    def chance(self, per_cent):
        """True in so many of a hundred draws."""
        return self.random.random() * 100 < per_cent

    def number(self, low, high):
        """An int of low to high."""
        return self.random.randint(low, high)

    def permutation(self, size):
        """0 to size - 1 in some order."""
        return self.random.sample(range(size), size)

    def fits(self, shape):
        """Whether a tile shape is one, and not too large."""
        return shape is not None and count(self.out.extents(shape)) <= MOST_ELEMENTS

    def operand(self, scope, fits=lambda v: True):
        """A value of the graph, late and computed ones more often; None where none fits."""
        found = [v for v in scope.pool if fits(v)]
        computed = [v for v in found if not v.plain]
        if computed and self.chance(70):
            found = computed
        return found[-1 - min(self.number(0, 4), len(found) - 1)] if found else None

    def role(self, symbol):
        """Where tiles have a block."""
        return self.out.find(symbol)["role"]
