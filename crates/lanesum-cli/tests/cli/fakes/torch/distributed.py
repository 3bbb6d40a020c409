"""Collectives by way of rank 0. Ranks that are not in the same collective wait for ever, as they would elsewhere."""

import pickle
import socket
import struct
import time

import torch

rank = world = calls = 0
links = []


class ReduceOp:
    MAX = "max"


def init_process_group(backend, init_method, rank, world_size, timeout):
    globals().update(rank=rank, world=world_size)
    address = ("127.0.0.1", int(init_method.rsplit(":", 1)[1]))
    if rank == 0:
        server = socket.create_server(address)
        found = [server.accept()[0] for _ in range(world - 1)]
        links.extend(link for _, link in sorted((take(link), link) for link in found))
        return
    while not links:
        try:
            links.append(socket.create_connection(address))
        except ConnectionRefusedError:
            time.sleep(0.01)
    give(links[0], rank)


def give(link, value):
    data = pickle.dumps(value)
    link.sendall(struct.pack("!Q", len(data)) + data)


def take(link):
    def exactly(count):
        data = b""
        while len(data) < count:
            data += link.recv(count - len(data)) or exit("a rank is gone")
        return data

    return pickle.loads(exactly(struct.unpack("!Q", exactly(8))[0]))


def exchanged(what, value):
    if rank != 0:
        give(links[0], (what, value))
        return take(links[0])
    told = [(what, value), *map(take, links)]
    while any(other != what for other, _ in told):
        time.sleep(1.0)
    values = [value for _, value in told]
    for link in links:
        give(link, values)
    return values


def barrier():
    exchanged("barrier", None)


def all_gather_object(values, value):
    values[:] = exchanged("gather", value)


def is_nccl_available():
    return True


def new_group(backend):
    return backend


def all_reduce(one, op=None, group=None):
    if op is not None:
        one.data[:] = [max(exchanged("word", one.item()))]
    elif torch.cuda.recorded is not None:
        torch.cuda.recorded.append(lambda: summed(one))
    else:
        summed(one)


def summed(one):
    global calls
    calls += 1
    mine = str(rank) == torch.RANK and calls >= int(torch.CALL)
    if mine and torch.KIND == "fails":
        torch.cuda.works = False
    torch.cuda.synchronize()
    one.data[:] = [sum(column) for column in zip(*exchanged("sum", one.data), strict=True)]
    if mine and torch.KIND == "wrong":
        one.data[-1] += 64.0
