#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The layering of the house (HACKING.md): who includes whom, and that packet/ and route/ stay pure.

Includes are read from the sources; what packet/ and route/ call and keep is read from the archives of the build
directory ($O, default build): no system call, allocator, clock or log, and nothing writable outside their arguments.
Before the real check the rules are tried on a small tree that breaks each of them, so a check that finds nothing
means something. Exit 0 clean, 1 violations, 77 the archives are not built.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# folder: project folders that its files may include, beside itself. bpf means bpf/shared.h and the skeletons.
MAY_INCLUDE = {
    'daemon/common': set(),
    'daemon/packet': {'common'},
    'daemon/route': {'common', 'packet'},
    'daemon/port': {'common', 'packet', 'route', 'bpf'},
    'daemon/worker': {'common', 'packet', 'route', 'port', 'bpf'},
    'daemon/api': {'common'},
    'daemon/control': {'common', 'packet', 'route', 'port', 'worker', 'api', 'bpf'},
    'daemon': {'common', 'packet', 'route', 'port', 'worker', 'api', 'control', 'bpf'},
    'cli': {'common', 'api'},
    'bpf': set(),
}
PURE = ('packet', 'route')
PURE_HEADERS = re.compile(r'^(std(int|bool|def|arg|align)|string|errno|limits|endian|byteswap|inttypes|'
                          r'netinet/(in|ip|ip6|tcp|udp)|arpa/inet|linux/(types|if_ether|in|in6|ip|ipv6|icmp|icmpv6|tcp|udp)|'
                          r'(imm|emm|xmm|smm|nmm|tmm|pmm)intrin)\.h$')
# What an archive of a pure folder may need from outside the two.
PURE_SYMBOLS = re.compile(r'^(mem(cpy|move|set|cmp|chr)|bcmp|str(len|cmp|ncmp)|__stack_chk_fail|'
                          r'_GLOBAL_OFFSET_TABLE_|__(asan|ubsan|tsan|sanitizer)_.*|__mem(cpy|move|set)_chk)$')
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
PRIVATE = re.compile(r'_(private|impl)\.h$')


def sources(root, folder):
    base = os.path.join(root, folder)
    if not os.path.isdir(base):
        return
    for name in sorted(os.listdir(base)):
        if name.endswith(('.c', '.h')):
            yield os.path.join(folder, name)


def include_faults(root):
    """A line per include that the layering forbids."""
    faults = []
    for folder, allowed in MAY_INCLUDE.items():
        own = os.path.basename(folder)
        for path in sources(root, folder):
            with open(os.path.join(root, path), encoding='utf-8') as f:
                text = f.read()
            for m in INCLUDE.finditer(text):
                where = f'{path}:{text.count(chr(10), 0, m.start(1) if m.group(1) else m.start(2)) + 1}'
                if m.group(2):
                    if own in PURE and not PURE_HEADERS.match(m.group(2)):
                        faults.append(f'{where}: <{m.group(2)}> is not for {own}/, which makes no system calls')
                    continue
                faults += quoted_faults(where, own, allowed, m.group(1))
    return faults


def quoted_faults(where, own, allowed, header):
    if '..' in header.split('/'):
        return [f'{where}: "{header}" climbs out of its folder']
    folder = header.split('/')[0] if '/' in header else own
    if own in ('cli', 'bpf') and '/' not in header:
        return []
    if '/' not in header:
        return [f'{where}: "{header}" lacks its folder']
    if folder != own and folder not in allowed:
        return [f'{where}: {own}/ may not include {folder}/']
    if folder != own and PRIVATE.search(header):
        return [f'{where}: "{header}" is private to {folder}/']
    return []


def symbols(archive, kind):
    """Names of an archive's symbols: kind '-u' undefined, '--defined-only' defined."""
    out = subprocess.run(['nm', kind, archive], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.strip() and not line.endswith(':')}


def symbol_faults(build):
    """A line per symbol that a pure archive needs from outside, and per writable section."""
    archives = {f: os.path.join(build, f'lib{f}.a') for f in PURE}
    defined = set().union(*(symbols(a, '--defined-only') for a in archives.values()))
    faults = []
    for folder, archive in archives.items():
        for s in sorted(symbols(archive, '-u') - defined):
            if not PURE_SYMBOLS.match(s):
                faults.append(f'{archive}: {folder}/ calls {s}()')
        faults += writable_faults(folder, archive)
    return faults


def writable_faults(folder, archive):
    """Sections that are written at run time. Relocated constants (.data.rel.ro) are not."""
    out = subprocess.run(['readelf', '-SW', archive], capture_output=True, text=True, check=True).stdout
    faults, member = [], ''
    for line in out.splitlines():
        if line.startswith('File: '):
            member = line[6:].strip()
        m = re.match(r'\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([A-Za-z]+)', line)
        if not m or int(m.group(2), 16) == 0 or not {'W', 'A'} <= set(m.group(3)):
            continue
        if re.match(r'\.(data\.rel\.ro|init_array|fini_array|preinit_array|.*asan|.*ubsan)', m.group(1)):
            continue
        if any(s in m.group(1) for s in ('asan_globals', 'ubsan')):
            continue
        faults.append(f'{member}: {folder}/ has a writable global ({m.group(1)}, {int(m.group(2), 16)} bytes)')
    return faults


def sanitized(build):
    """Sanitizers put their own writable records into every object."""
    try:
        with open(os.path.join(build, 'flags')) as f:
            return '-fsanitize' in f.read()
    except OSError:
        return False


BAD_INCLUDES = {
    'daemon/packet/a.c': '#include "route/fib.h"\n',
    'daemon/route/b.c': '#include <stdlib.h>\n',
    'daemon/port/c.c': '#include "worker/worker.h"\n',
    'daemon/worker/d.c': '#include "port/xsk_private.h"\n',
    'daemon/common/e.c': '#include "../main.h"\n',
    'daemon/control/f.c': '#include "mirror.h"\n',
    'cli/g.c': '#include "control/config.h"\n',
}
BAD_CODE = ('#include <stdlib.h>\nint counter_of_calls;\nstatic char *kept = (char *)&counter_of_calls;\n'
            'void *f(void); void *f(void) { counter_of_calls++; return kept ? malloc(3) : kept++; }\n')


def self_test():
    """Each rule finds the fault that is made for it, and nothing else."""
    with tempfile.TemporaryDirectory() as tmp:
        for path, text in BAD_INCLUDES.items():
            os.makedirs(os.path.join(tmp, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(tmp, path), 'w') as f:
                f.write(text)
        found = include_faults(tmp)
        missed = [p for p in BAD_INCLUDES if not any(line.startswith(p + ':1:') for line in found)]
        assert not missed and len(found) == len(BAD_INCLUDES), (missed, found)
        with open(f'{tmp}/x.c', 'w') as f:
            f.write(BAD_CODE)
        with open(f'{tmp}/y.c', 'w') as f:
            f.write('extern const char *const words[]; const char *const words[] = { "a", "b" };\n')
        for name, lib in (('x', 'packet'), ('y', 'route')):
            subprocess.run(['cc', '-O1', '-fPIE', '-c', f'{tmp}/{name}.c', '-o', f'{tmp}/{name}.o'], check=True)
            subprocess.run(['ar', 'rcs', f'{tmp}/lib{lib}.a', f'{tmp}/{name}.o'], check=True)
        found = symbol_faults(tmp)
        assert any('malloc' in line for line in found) and any('writable' in line for line in found), found
        assert not any('route/' in line for line in found), found


def main():
    build = os.path.join(ROOT, os.environ.get('O', 'build'))
    self_test()
    faults = include_faults(ROOT)
    built = all(os.path.exists(os.path.join(build, f'lib{f}.a')) for f in PURE)
    if built and not sanitized(build):
        faults += symbol_faults(build)
    print('\n'.join(faults))
    if faults:
        return 1
    if not built:
        print(f'{build} has no archives to look into: includes only (run make first)')
        return 77
    if sanitized(build):
        print(f'{build} is a sanitizer build: includes only')
        return 77
    return 0


if __name__ == '__main__':
    sys.exit(main())
