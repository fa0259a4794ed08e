# SPDX-License-Identifier: Apache-2.0
"""The pixels of a PNG file as Chromium writes it: 8 bits a channel, without interlacing (PNG
specification, 3rd edition, 11.2 and 9.2)."""

import struct
import zlib


class Pixels:
    def __init__(self, data):
        if data[:8] != b"\x89PNG\r\n\x1a\n":
            raise ValueError("this is no PNG file")
        packed, at = b"", 8
        while at < len(data):
            size, kind = struct.unpack_from(">I4s", data, at)
            content = data[at + 8:at + 8 + size]
            if kind == b"IHDR":
                self.width, self.height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", content)
                self.channels = {2: 3, 6: 4}[colours]
                if depth != 8 or interlaced:
                    raise ValueError("a kind of PNG file that is not read here")
            elif kind == b"IDAT":
                packed += content
            at += 12 + size
        self.rows = list(self._rows(zlib.decompress(packed)))

    def _rows(self, raw):
        row_size = self.width * self.channels
        above = bytearray(row_size)
        for start in range(0, len(raw), row_size + 1):
            row = bytearray(raw[start + 1:start + 1 + row_size])
            self._unfilter(raw[start], row, above)
            yield row
            above = row

    def _unfilter(self, kind, row, above):
        step = self.channels
        for i in range(len(row)) if kind else ():
            left, up = (row[i - step] if i >= step else 0), above[i]
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            else:
                corner = above[i - step] if i >= step else 0
                guess = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
            row[i] = row[i] + guess & 255

    def at(self, x, y):
        """(red, green, blue)"""
        return tuple(self.rows[y][x * self.channels:x * self.channels + 3])
