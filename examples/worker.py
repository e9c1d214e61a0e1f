#!/usr/bin/env python3
"""A worker that writes through fencegate, with the standard library alone.

    FENCE_URL=http://127.0.0.1:8080 ./worker.py SKU-1 3

sells three pieces from one shelf: it reads how many are left and writes one
less. Class Lease is what to copy. Exit code 75: somebody else has the lock; 76:
the lease was lost, and nothing was written after that.
"""
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("FENCE_URL", "http://127.0.0.1:8080")
API_KEY = os.environ.get("FENCE_API_KEY")
TTL_MS = int(os.environ.get("TTL_MS", "10000"))
PAUSE = float(os.environ.get("PAUSE_SECONDS", "0.2"))  # stands for the work


class Lost(Exception):
    """The lease can't be relied upon any more: stop."""


class Answer(Exception):
    """The gateway answered, but no success."""

    def __init__(self, status, refused, problem):
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status, self.refused = status, refused


class Stay(urllib.request.HTTPRedirectHandler):
    """A redirect is followed nowhere: it would take the holder and the key along."""

    def redirect_request(self, *_):
        return None


gateway = urllib.request.build_opener(Stay)


def call(method, path, body=None, headers=None, timeout=10.0):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
    if API_KEY:
        request.add_header("Authorization", "Bearer " + API_KEY)
    try:
        with gateway.open(request, timeout=timeout) as answer:
            return json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        is_problem = error.headers.get("Content-Type") == "application/problem+json"
        raise Answer(error.code, error.headers.get("Fencing-Refused"), json.loads(error.read()) if is_problem else {}) from None


class Lease:
    def __init__(self, key):
        ask = "POST", "/v1/leases", {"key": key, "ttl_ms": TTL_MS, "client": "worker.py"}, {"Idempotency-Key": str(uuid.uuid4())}
        sent = self.clocks()  # before the request: a slow answer must not lengthen the lease
        try:
            granted = call(*ask)
        except (OSError, ValueError):  # no answer: asked once more under its key, it meets its own grant
            sent, granted = self.clocks(), call(*ask)
        self.take(sent, granted)
        self.lost, self.done = threading.Event(), threading.Event()
        self.watchdog = threading.Thread(target=self.renew, daemon=True)
        self.watchdog.start()

    @staticmethod
    def clocks():
        # The first stands still while the machine is suspended, the second may be set.
        return time.monotonic(), time.time()

    def take(self, sent, answer):
        ttl = answer["ttl_ms"] / 1000
        self.headers, self.again = answer["headers"], answer["renew_after_ms"] / 1000
        self.claim = {name: answer[name] for name in ("key", "holder", "token")}
        self.trust = (*sent, ttl - ttl / 100 - 0.01)  # less what clocks may drift

    def left(self):
        monotonic, wall, trusted = self.trust
        now = self.clocks()
        return trusted - max(now[0] - monotonic, now[1] - wall)

    def check(self):
        """Call it right before anything that needs the lock."""
        if self.lost.is_set() or self.left() <= 0:
            self.lost.set()
            raise Lost("the lease is over")

    def renew(self):
        wait = self.again
        while not self.done.wait(wait) and not self.lost.is_set():
            if self.left() <= 0:
                return
            sent = self.clocks()
            try:
                # A third of what is left, so that one call into the void leaves time for others.
                self.take(sent, call("POST", "/v1/leases/renew", {**self.claim, "ttl_ms": TTL_MS}, timeout=max(0.1, self.left() / 3)))
                wait = self.again
            except (Answer, OSError, ValueError) as error:
                if isinstance(error, Answer) and error.refused:
                    self.lost.set()
                wait = max(0.05, self.left() / 10)

    def write(self, method, path, body):
        """Writes once, however often it is sent; raises Lost when the lease is over."""
        once = {"Idempotency-Key": str(uuid.uuid4())}
        while True:
            self.check()
            try:
                return call(method, path, body, {**self.headers, **once}, timeout=max(0.1, self.left()))
            except Answer as answer:
                if answer.refused:  # the token is dead: never again
                    self.lost.set()
                    raise Lost(answer) from None
                if answer.status not in (502, 503, 504):
                    raise
            except OSError:
                pass  # no answer: it may have been applied, and is so once
            time.sleep(min(0.5, max(0, self.left())))

    def release(self):
        self.done.set()
        self.watchdog.join(timeout=5)  # no renewal after the release
        try:
            call("POST", "/v1/leases/release", self.claim, timeout=3)
        except (OSError, Answer):
            pass  # it runs out by itself


def sell(lease, sku):
    row = "/rest/inventory?sku=eq." + sku
    available = call("GET", row + "&select=available")[0]["available"]
    lease.write("PATCH", row, {"available": available - 1})
    print(f"sold one, {available - 1} left", flush=True)


def main(sku, pieces):
    try:
        lease = Lease("inventory:" + sku)
    except Answer as answer:
        print(f"no lock: {answer}", flush=True)
        return 75 if answer.status == 423 else 1
    try:
        for _ in range(int(pieces)):
            lease.check()
            sell(lease, sku)
            time.sleep(PAUSE)
        return 0
    except Lost as why:
        print(f"stopped: {why}", flush=True)
        return 76
    finally:
        lease.release()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
