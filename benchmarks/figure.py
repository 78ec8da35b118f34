"""Lines over two axes as SVG."""
import math

WIDTH, HEIGHT, MARGIN = 720, 440, 56
TICKS = 6  # of a linear axis, about


class Axis:
    """From the lowest to the highest value, to whole powers of ten or round steps, on `length` pixels from `start`."""

    def __init__(self, values, logarithmic, start, length, unit=""):
        self.logarithmic, self.start, self.length, self.unit = logarithmic, start, length, unit
        low, high = self.scale(min(values)), self.scale(max(values))
        raw = (high - low) / TICKS or 1
        power = 10 ** math.floor(math.log10(raw))
        step = 1 if logarithmic else next(n * power for n in (1, 2, 5, 10) if n * power >= raw)
        self.low, self.high = math.floor(low / step) * step, math.ceil(high / step) * step
        count = round((self.high - self.low) / step)
        self.ticks = [self.low + i * step for i in range(count + 1)]

    def scale(self, value):
        return math.log10(value) if self.logarithmic else value

    def at(self, scaled):
        return self.start + (scaled - self.low) / (self.high - self.low) * self.length

    def place(self, value):
        return self.at(self.scale(value))

    def text(self, tick):
        return f"{10 ** tick if self.logarithmic else tick:.6g}{self.unit}"


def draw(path, series, logarithmic=False, units=("", ""), marks=False, legend=(MARGIN + 10, 24)):
    """series: [(name, colour, [(x, y), ...]), ...]. marks: a dot at each point. Writes the file."""
    points = [p for _, _, line in series for p in line]
    x = Axis([p[0] for p in points], logarithmic, MARGIN, WIDTH - 2 * MARGIN, units[0])
    y = Axis([p[1] for p in points], logarithmic, HEIGHT - MARGIN, 2 * MARGIN - HEIGHT, units[1])
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for tick in x.ticks:
        out.append(f'<line x1="{x.at(tick):.1f}" y1="{MARGIN}" x2="{x.at(tick):.1f}" y2="{HEIGHT - MARGIN}" stroke="#ddd"/>')
        out.append(f'<text x="{x.at(tick):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle" fill="#444">{x.text(tick)}</text>')
    for tick in y.ticks:
        out.append(f'<line x1="{MARGIN}" y1="{y.at(tick):.1f}" x2="{WIDTH - MARGIN}" y2="{y.at(tick):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{MARGIN - 6}" y="{y.at(tick) + 4:.1f}" text-anchor="end" fill="#444">{y.text(tick)}</text>')
    for i, (name, colour, line) in enumerate(series):
        places = [(x.place(a), y.place(b)) for a, b in line]
        out.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if marks:
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places]
        out.append(f'<text x="{legend[0]}" y="{legend[1] + 16 * i}" fill="{colour}">{name}</text>')
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")
