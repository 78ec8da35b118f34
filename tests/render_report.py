#!/usr/bin/env python3
"""Renders a real report in headless Chromium, light and dark, and looks at the pixels. Exit 77 where Chromium is not installed.
usage: render_report.py CLEAVE"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

CLEAVE = os.path.abspath(sys.argv[1])
BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


def pixels(path):
    """Width, height and rows of RGB(A) bytes of an 8-bit PNG without interlacing."""
    data, at, body = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        chunk = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", chunk[:10])
            assert depth == 8 and colour in (2, 6)
        elif kind == b"IDAT":
            body += chunk
        at += 12 + length
    channels, raw, rows, previous = (3 if colour == 2 else 4), zlib.decompress(body), [], None
    stride = width * channels
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left = line[i - channels] if i >= channels else 0
            up = previous[i] if previous else 0
            corner = previous[i - channels] if previous and i >= channels else 0
            if kind == 1:
                line[i] = (line[i] + left) & 255
            elif kind == 2:
                line[i] = (line[i] + up) & 255
            elif kind == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif kind == 4:
                p = left + up - corner
                best = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]
                line[i] = (line[i] + best) & 255
        rows.append(bytes(line))
        previous = line
    return width, height, channels, rows


def look(report, picture, dark):
    args = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=700,2000", f"--screenshot={picture}"]
    if dark:
        args.append("--blink-settings=preferredColorScheme=0")
    subprocess.run([*args, report.as_uri()], check=True, capture_output=True, timeout=120)
    width, height, channels, rows = pixels(picture)
    colours = {}
    for row in rows[::3]:
        for x in range(0, width * channels, 3 * channels):
            colour = row[x:x + 3]
            colours[colour] = colours.get(colour, 0) + 1
    background = max(colours, key=colours.get)
    vivid = sum(n for c, n in colours.items() if max(c) - min(c) > 60)
    return sum(background) / 3, len(colours), vivid


def main():
    if not BROWSER:
        print("SKIP: no Chromium here: the report was not rendered")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report = folder / "report.html"
        subprocess.run([CLEAVE, "compare", "--auto", "tiny-gpt", "--cluster", "1x2:cpu", "--batch", "8", "--seq", "16", "--run", "--steps", "3", "--rounds", "1",
                        "--report", report], check=True, capture_output=True, timeout=300)
        light, colours, vivid = look(report, folder / "light.png", False)
        dark, dark_colours, dark_vivid = look(report, folder / "dark.png", True)
    print(f"background {light:.0f} light, {dark:.0f} dark; {colours} and {dark_colours} colours; {vivid} and {dark_vivid} vivid pixels")
    good = light > 240 and dark < 60 and min(colours, dark_colours) > 20 and min(vivid, dark_vivid) > 200
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
