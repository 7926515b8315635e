#!/usr/bin/env python3
"""synthesis_fabrics.py dgx2|ndv2 CHASSIS: writes the fabric of GPU servers as TE-CCL and TACCL describe them.

The format is docs/fabrics.md's, on standard output. Each GPU is a host at a router of its own, which has the GPU's links; the link
between the two costs nothing. Links that those descriptions have in one direction only are cables here, of which the routes use one
direction. Sources: teccl/topologies/{dgx2,ndv2}.py of microsoft/TE-CCL at c128bf24.
"""

import heapq
import json
import sys

NOTHING = 1e12  # bytes a second of what costs nothing
CUBE_MESH_DOUBLE = [(0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)]
CUBE_MESH_SINGLE = [(0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)]


def router(chassis, gpu):
    return f"c{chassis}r{gpu}"


def dgx2(chassis):
    """16 GPUs at an NVSwitch; odd GPUs send to the even ones below them in the other chassis."""
    if chassis != 2:
        sys.exit("dgx2: its description joins 2 chassis")
    links = []
    for c in range(2):
        links += [(router(c, g), f"nvswitch{c}", 125e9, 350, True) for g in range(16)]
        links += [(router(c, g), router(1 - c, g - 1), 12.5e9, 2600, False) for g in range(1, 16, 2)]
    return 16, links


def ndv2(chassis):
    """8 GPUs in a cube mesh, as in a DGX-1; GPU 0 sends to other chassis, GPU 1 receives."""
    links = []
    for c in range(chassis):
        links += [(router(c, a), router(c, b), 50e9, 700, True) for a, b in CUBE_MESH_DOUBLE]
        links += [(router(c, a), router(c, b), 25e9, 700, True) for a, b in CUBE_MESH_SINGLE]
    if chassis == 2:
        links += [(router(c, 0), router(1 - c, 1), 12.5e9, 1300, False) for c in range(2)]
    elif chassis > 2:
        links += [(router(c, 0), "network", 12.5e9, 1300, False) for c in range(chassis)]
        links += [("network", router(c, 1), 12.5e9, 1300, False) for c in range(chassis)]
    return 8, links


def ways_to(target, into):
    """By node, the next nodes on the ways to `target` of the least sum of 1 / bandwidth, those of the slowest link."""
    cost, after = {target: 0.0}, {}
    queue = [(0.0, target)]
    while queue:
        done, node = heapq.heappop(queue)
        if done > cost[node]:
            continue
        for other, bandwidth in into[node]:
            further = done + 1 / bandwidth
            best = cost.get(other, float("inf"))
            if further < best * (1 - 1e-9):
                cost[other], after[other] = further, []
                heapq.heappush(queue, (further, other))
            if further <= best * (1 + 1e-9):
                after[other].append((bandwidth, node))
    return {node: [next for width, next in nexts if width == min(nexts)[0]] for node, nexts in after.items()}


def tables(targets, into):
    """The next node from each node to each target. Where there are several, the one that fewest targets have."""
    ways = [ways_to(target, into) for target in targets]
    used, table = {}, [{target: target} for target in targets]
    choices = [(len(nexts), t, node, nexts) for t in range(len(targets)) for node, nexts in ways[t].items()]
    for _, t, node, nexts in sorted(choices):
        table[t][node] = min(sorted(nexts), key=lambda next: used.get((node, next), 0))
        used[node, table[t][node]] = used.get((node, table[t][node]), 0) + 1
    return table


def main():
    kinds = {"dgx2": dgx2, "ndv2": ndv2}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds or not sys.argv[2].isdigit() or int(sys.argv[2]) < 1:
        sys.exit(__doc__.split("\n")[0])
    chassis = int(sys.argv[2])
    gpus, links = kinds[sys.argv[1]](chassis)
    hosts = [(c, g) for c in range(chassis) for g in range(gpus)]
    switches = [router(c, g) for c, g in hosts]
    switches += sorted({end for link in links for end in link[:2]} - set(switches))
    ports = {name: {} for name in switches}  # the port to a neighbour
    into = {name: [] for name in switches}  # from where links lead there, with their bandwidth
    cables = []

    def join(a, b, bandwidth, latency):
        ends = []
        for name, other in ((a, b), (b, a)):
            port = 1
            if name in ports:
                port = ports[name].setdefault(other, len(ports[name]) + 1)
            ends += [name, port]
        cables.append({"ends": ends, "bandwidth": bandwidth, "latency_ns": latency})

    for c, g in hosts:
        join(f"c{c}g{g}", router(c, g), NOTHING, 0)
    for a, b, bandwidth, latency, duplex in links:
        join(a, b, bandwidth, latency)
        into[b].append((a, bandwidth))
        if duplex:
            into[a].append((b, bandwidth))
    table = tables([router(c, g) for c, g in hosts], into)
    routes = {name: [] for name in switches}
    for (c, g), after in zip(hosts, table):
        for name in switches:
            routes[name].append(ports[name][f"c{c}g{g}" if name == router(c, g) else after[name]])
    rows = lambda items: "[\n  " + ",\n  ".join(json.dumps(item) for item in items) + "\n]"
    print('{\n"format": "ibcoll fabric 1",')
    print(f'"name": "{sys.argv[1]} x {chassis}",')
    print(f'"hosts": {json.dumps([f"c{c}g{g}" for c, g in hosts])},')
    print(f'"switches": {json.dumps(switches)},')
    print(f'"cables": {rows(cables)},')
    print('"routes": {\n  ' + ",\n  ".join(f'"{name}": {json.dumps(routes[name])}' for name in switches) + "\n}\n}")


main()
