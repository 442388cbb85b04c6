"""Random numbers from a seed, equal to those of Boost.Random, with which the published traces were made:
NumPy has no 64-bit Mersenne Twister, and draws from it in another order."""

import functools
import math
from decimal import Decimal, localcontext

WORDS, MIDDLE = 312, 156
MASK = (1 << 64) - 1
LOW = (1 << 31) - 1
TWIST = 0xB5026F5AA96619E9


class RandomNumbers:
    """A 64-bit Mersenne Twister (mt19937_64)."""

    def __init__(self, seed):
        state = [seed & MASK]
        for number in range(1, WORDS):
            state.append(6364136223846793005 * (state[-1] ^ state[-1] >> 62) + number & MASK)
        self._state = state
        self._words = iter(())

    def word(self):
        """Uniform below 2^64."""
        for word in self._words:
            return word
        self._words = self._next_words()
        return self.word()

    def uniform(self):
        """Uniform in [0, 1)."""
        while True:
            number = self.word() * 2.0**-64
            if number < 1:  # The largest words are rounded up.
                return number

    def exponential(self, mean):
        """The time between two events of a Poisson process, rounded."""
        return rounded(mean * self._unit_exponential())

    def _next_words(self):
        state = self._state
        for at in range(WORDS):
            mixed = state[at] & ~LOW & MASK | state[(at + 1) % WORDS] & LOW
            state[at] = state[(at + MIDDLE) % WORDS] ^ mixed >> 1 ^ (TWIST if mixed & 1 else 0)
        for word in state:
            word ^= word >> 29 & 0x5555555555555555
            word ^= word << 17 & 0x71D67FFFEDA60000
            word ^= word << 37 & 0xFFF7EEE000000000
            yield word ^ word >> 43

    def _unit_exponential(self):
        """By the ziggurat method of Marsaglia and Tsang, 2000: a layer, and a place in it."""
        edges, heights = ziggurat()
        shift = 0.0
        while True:
            word = self.word()
            layer = word & 0xFF
            x = ((word & ~(1 << 11)) >> 8) * 2.0**-56 * edges[layer]
            if x < edges[layer + 1]:
                return shift + x
            if layer == 0:  # The tail has the shape of the whole.
                shift += edges[1]
                continue
            drawn = self.uniform()
            y = heights[layer] + drawn * (heights[layer + 1] - heights[layer])
            above_chord = (edges[layer] - edges[layer + 1]) * drawn - (edges[layer] - x)
            if above_chord < 0 and y < math.exp(-x):
                return x + shift


class Poisson:
    """Poisson numbers of one mean, by PTRD (Hormann, 1993). Requires: `mean` is at least 0."""

    def __init__(self, mean):
        self.mean = mean
        if mean < 10:
            self._zero = math.exp(-mean)  # The probability of 0.
            return
        self._root = math.sqrt(mean)
        self._b = 0.931 + 2.53 * self._root
        self._a = -0.059 + 0.02483 * self._b
        self._inverse_alpha = 1.1239 + 1.1328 / (self._b - 3.4)
        self._edge = 0.9277 - 3.6224 / (self._b - 2)

    def draw(self, random):
        if self.mean == 0:
            return 0
        return self._invert(random) if self.mean < 10 else self._reject(random)

    def _invert(self, random):
        number, probability, left = 0, self._zero, random.uniform()
        while left > probability:
            left -= probability
            number += 1
            probability = self.mean * probability / number
        return number

    def _reject(self, random):
        while True:
            v = random.uniform()
            if v <= 0.86 * self._edge:
                u = v / self._edge - 0.43
                return self._number(u, 0.5 - abs(u))
            if v >= self._edge:
                u = random.uniform() - 0.5
            else:
                u = v / self._edge - 0.93
                u = (-0.5 if u < 0 else 0.5) - u
                v = random.uniform() * self._edge
            room = 0.5 - abs(u)
            if room < 0.013 and v > room:
                continue
            number = self._number(u, room)
            v = v * self._inverse_alpha / (self._a / (room * room) + self._b)
            if number >= 0 and self._accepts(number, v):
                return number

    def _number(self, u, room):
        return math.floor((2 * self._a / room + self._b) * u + self.mean + 0.445)

    def _accepts(self, number, v):
        k, mean = float(number), self.mean
        if number < 10:
            return math.log(v) <= k * math.log(mean) - mean - LOG_FACTORIALS[number]
        series = (1 / 12.0 - (1 / 360.0 - 1 / (1260.0 * k * k)) / (k * k)) / k  # Stirling's.
        return (math.log(v * self._root)
                <= (k + 0.5) * math.log(mean / k) - mean - 0.91893853320467267 + k - series)


LOG_FACTORIALS = (0.0, 0.0, 0.69314718055994529, 1.7917594692280550, 3.1780538303479458, 4.7874917427820458,
                  6.5792512120101012, 8.5251613610654147, 10.604602902745251, 12.801827480081469)


@functools.cache
def ziggurat():
    """The right edges and the heights of 256 layers of equal area below exp(-x), from the bottom up."""
    with localcontext() as context:
        context.prec = 50
        edge = Decimal("7.6971174701310497140446280480152154991139686400553")  # So that the top one ends at 1.
        area = (edge + 1) * (-edge).exp()
        edges, heights = [area / (-edge).exp(), edge], [Decimal(0), (-edge).exp()]
        while len(edges) < 256:
            heights.append(heights[-1] + area / edges[-1])
            edges.append(-heights[-1].ln())
        return [*map(float, edges), 0.0], [*map(float, heights), 1.0]


def rounded(number):
    """To the nearest whole number; halves go up. Requires: `number` is at least 0."""
    whole = int(number)
    return whole + 1 if number - whole >= 0.5 else whole


def sum_of(numbers):
    """From the first to the last; `sum` of newer Pythons rounds otherwise."""
    total = 0.0
    for one in numbers:
        total += one
    return total
