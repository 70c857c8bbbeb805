# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab: network namespaces with hosts around one router namespace, and routerd in it.

lab.py      class Lab: topology, routerd, expectations, and the assertions at the end of every test
netns.py    namespaces: making, entering, removing, left-overs
frames.py   building packets, and the naive model of what forwarding does to one
errors.py   ICMP errors: provoking them and what is right
wire.py     injection and capture at any namespace's interface
kernel.py   the kernel's own counters and settings of a namespace
traffic.py  streams with sequence numbers, TCP transfers, iperf3
routerd.py  the daemon's process, routerctl, metrics
mirror.py   routerctl's routes against the kernel's
routing.py  BIRD and FRR
"""
from .lab import Lab, Setup, reference_only  # noqa: F401
