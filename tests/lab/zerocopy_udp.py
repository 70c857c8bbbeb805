#!/usr/bin/python3
"""Numbered UDP packets for zerocopy.sh: `send COUNT ADDRESS RATE` and `sink COUNT`, which says what came."""
import socket
import sys
import time

PORT = 4789


def body(number):
    return number.to_bytes(4, "big") + bytes((number + i) & 255 for i in range(60 + number % 1300))


def send(count, address, rate):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    start = time.monotonic()
    for n in range(count):
        s.sendto(body(n), (address, PORT))
        wait = start + n / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)


def sink(count):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    s.bind(("0.0.0.0", PORT))
    s.settimeout(20)
    seen, corrupt = set(), 0
    try:
        while len(seen) < count:
            data = s.recv(65536)
            number = int.from_bytes(data[:4], "big")
            corrupt += data != body(number)
            seen.add(number)
    except socket.timeout:
        pass
    print(f"got {len(seen)} of {count}, corrupt {corrupt}", flush=True)


if sys.argv[1] == "send":
    send(int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
else:
    sink(int(sys.argv[2]))
