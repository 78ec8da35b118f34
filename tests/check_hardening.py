#!/usr/bin/env python3
"""What the linker and the compiler put into the binaries against those who would misuse them, read from the files themselves.

usage: check_hardening.py FORTIFIED PROGRAM [LIBRARY...]   (FORTIFIED: true or false)
"""
import struct
import sys

ET_DYN, PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 3, 1, 2, 3, 0x6474E551, 0x6474E552
EXECUTABLE, WRITABLE = 1, 2
DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DT_TEXTREL, DT_RPATH = 5, 6, 10, 24, 30, 0x6FFFFFFB, 22, 15


class Binary:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"{path}: expected a 64-bit little-endian ELF file")
        self.type, = struct.unpack_from("<H", self.data, 16)
        offset, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.data, offset + i * size) for i in range(count)]
        self.dynamic = {}
        for kind, _, at, _, _, length, _, _ in self.segments:
            if kind == PT_DYNAMIC:
                for i in range(0, length, 16):
                    tag, value = struct.unpack_from("<QQ", self.data, at + i)
                    self.dynamic.setdefault(tag, value)

    def place(self, address):
        """Where in the file."""
        return next(at + address - start for kind, _, at, start, _, length, _, _ in self.segments if kind == PT_LOAD and start <= address < start + length)

    def has(self, kind):
        return any(segment[0] == kind for segment in self.segments)

    def names(self):
        """Of the dynamic symbols, by the strings that they are made of."""
        start = self.place(self.dynamic[DT_STRTAB])
        return {name.decode() for name in self.data[start:start + self.dynamic[DT_STRSZ]].split(b"\0")}


def lacks(path, fortified, program):
    binary = Binary(path)
    names = binary.names()
    wanted = {
        "position independent (PIE)": binary.type == ET_DYN and (not program or binary.has(PT_INTERP)),
        "RELRO": binary.has(PT_GNU_RELRO),
        "BIND_NOW": DT_BIND_NOW in binary.dynamic or binary.dynamic.get(DT_FLAGS, 0) & 8 or binary.dynamic.get(DT_FLAGS_1, 0) & 1,
        "a stack that is not executable": any(kind == PT_GNU_STACK and not flags & EXECUTABLE for kind, flags, *_ in binary.segments),
        "no segment both writable and executable": not any(kind == PT_LOAD and flags & EXECUTABLE and flags & WRITABLE for kind, flags, *_ in binary.segments),
        "no relocations in code": DT_TEXTREL not in binary.dynamic,
        "no RPATH": DT_RPATH not in binary.dynamic,
        "the stack protector": "__stack_chk_fail" in names,
        "FORTIFY_SOURCE": not fortified or any(name.endswith("_chk") for name in names),
    }
    return [what for what, there in wanted.items() if not there]


def main():
    fortified, paths = sys.argv[1] == "true", sys.argv[2:]
    failures = [f"{path}: expected {what}" for i, path in enumerate(paths) for what in lacks(path, fortified, i == 0)]
    print("\n".join(failures) if failures else f"{len(paths)} hardened")
    sys.exit(1 if failures or not paths else 0)


if __name__ == "__main__":
    main()
