# SPDX-License-Identifier: GPL-2.0-or-later
"""routerd --check: every kind of configuration error names file, line, key and what is allowed."""
import random
import subprocess

import pytest

from harness.routerd import ROOT, binary

pytestmark = [pytest.mark.sanitizer, pytest.mark.routerd]

CASES = (  # name, text, line of the fault, words that the message must hold
    ('unknown key', '[router]\nworker = 2\n[port a]\n', 2, ('worker', 'workers')),
    ('unknown section', '[routers]\nworkers = 2\n[port a]\n', 1, ('routers', 'router')),
    ('unknown key of a port', '[port a]\nspeed = 10\n', 2, ('speed', 'mode')),
    ('bad number', '[router]\nworkers = two\n[port a]\n', 2, ('workers', 'two', '1', '32')),
    ('number too small', '[router]\nworkers = 0\n[port a]\n', 2, ('workers', '1', '32')),
    ('number too large', '[router]\nworkers = 33\n[port a]\n', 2, ('workers', '1', '32')),
    ('negative number', '[router]\nworkers = -1\n[port a]\n', 2, ('workers', '1', '32')),
    ('bad choice', '[port a]\nmode = fast\n', 2, ('mode', 'fast', 'auto', 'zero-copy', 'native', 'generic')),
    ('bad frame size', '[memory]\nframe_size = 3000\n[port a]\n', 2, ('frame_size', '2048', '4096')),
    ('bad size', '[memory]\nsize = 12Q\n[port a]\n', 2, ('size', '12Q')),
    ('bad yes or no', '[router]\nbusy_poll = maybe\n[port a]\n', 2, ('busy_poll', 'maybe', 'yes', 'no')),
    ('bad address', '[metrics]\nlisten = 300.0.0.1:80\n[port a]\n', 2, ('listen', '300.0.0.1:80')),
    ('bad port number', '[metrics]\nlisten = 127.0.0.1:99999\n[port a]\n', 2, ('listen', '99999')),
    ('relative path', '[control]\nsocket = run/x\n[port a]\n', 2, ('socket', 'run/x')),
    ('path too long', '[control]\nsocket = /' + 'x' * 150 + '\n[port a]\n', 2, ('socket', '107')),
    ('line too long', '[control]\nsocket = /' + 'x' * 900 + '\n[port a]\n', 2, ('line is too long',)),
    ('duplicate key', '[router]\nworkers = 1\nworkers = 2\n[port a]\n', 3, ('workers', '2')),
    ('duplicate port', '[port a]\n[port a]\n', 2, ('port a', '1')),
    ('port without a name', '[port]\n', 1, ('port',)),
    ('port name too long', '[port abcdefghijklmnopqrst]\n', 1, ('abcdefghijklmnopqrst', '15')),
    ('no port at all', '[router]\nworkers = 1\n', None, ('port',)),
    ('key outside a section', 'workers = 1\n[port a]\n', 1, ('workers',)),
    ('no key and no section', '[port a]\nwhat is this\n', 2, ('what is this',)),
    ('section not closed', '[port a\n', 1, (']',)),
    ('control character', '[port a]\nmode = na\x01tive\n', 2, ('control character',)),
)


def check(path):
    return subprocess.run([binary('routerd'), '--check', '-c', str(path)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=20)


@pytest.mark.parametrize('name,text,line,words', CASES, ids=[c[0].replace(' ', '-') for c in CASES])
def test_error(tmp_path, name, text, line, words):
    path = tmp_path / 'routerd.ini'
    path.write_text(text)
    r = check(path)
    said = r.stdout + r.stderr
    assert r.returncode not in (0, 99) and r.returncode > 0, said
    where = f'{path}:{line}:' if line else str(path)
    hits = [row for row in said.splitlines() if where in row]
    assert hits, f'no "{where}" in:\n{said}'
    missing = [w for w in words if not any(w in row for row in hits)]
    assert not missing, f'no {missing} in:\n{said}'


def test_all_errors_are_reported_at_once(tmp_path):
    path = tmp_path / 'routerd.ini'
    path.write_text('[router]\nworkers = 0\nbusy_poll = x\n[bogus]\n[port a]\nmode = y\n')
    said = check(path).stderr
    for line in (2, 3, 4, 6):
        assert f'{path}:{line}:' in said, said


def test_good_file(tmp_path):
    path = tmp_path / 'routerd.ini'
    path.write_text('[port a]\n\n[port b]\n')
    r = check(path)
    assert r.returncode == 0, r.stdout + r.stderr


def test_example_file_is_good_once_it_has_a_port(tmp_path):
    with open(f'{ROOT}/etc/routerd.ini') as f:
        text = f.read()
    path = tmp_path / 'routerd.ini'
    path.write_text(text + '\n[port eth0]\n')
    r = check(path)
    assert r.returncode == 0, r.stdout + r.stderr
    path.write_text(text)
    said = check(path)
    assert said.returncode != 0 and 'port' in said.stderr


def test_drop_in_files(tmp_path):
    """routerd.d/*.ini beside the file are read; an error in one names that file."""
    (tmp_path / 'routerd.d').mkdir()
    (tmp_path / 'routerd.ini').write_text('[port a]\n')
    extra = tmp_path / 'routerd.d' / '10-more.ini'
    extra.write_text('[router]\nworkers = many\n')
    r = check(tmp_path / 'routerd.ini')
    assert r.returncode != 0 and f'{extra}:2:' in r.stderr, r.stderr


def test_missing_file(tmp_path):
    r = check(tmp_path / 'nowhere.ini')
    assert r.returncode > 0 and 'nowhere.ini' in r.stderr and 'No such file' in r.stderr, r.stderr


def test_garbage(tmp_path):
    """Bytes of every kind: an error, never a crash."""
    rng = random.Random(1)
    path = tmp_path / 'routerd.ini'
    for size in (0, 1, 100, 100000):
        path.write_bytes(rng.randbytes(size))
        r = subprocess.run([binary('routerd'), '--check', '-c', str(path)], capture_output=True, timeout=20)
        assert r.returncode > 0 and b'Sanitizer' not in r.stderr, (size, r.returncode, r.stderr[-300:])


def test_start_with_a_bad_file(tmp_path):
    """Without --check the same errors, and no start."""
    path = tmp_path / 'routerd.ini'
    path.write_text('[port a]\nmode = fast\n')
    r = subprocess.run([binary('routerd'), '-c', str(path)], capture_output=True, text=True, timeout=20)
    # EX_CONFIG, by which systemd knows that another try is of no use (RestartPreventExitStatus=)
    assert r.returncode == 78 and f'{path}:2:' in r.stderr
    assert check(path).returncode == 1
