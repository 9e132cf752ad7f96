"""One test, two worlds: besides the port, a real cluster and the one in memory differ only in how a test pokes at them."""

import threading
import time
from contextlib import suppress

import pytest

from conformance.kinds import NODE
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import NAMESPACES, RAW_PODS, Key
from harness.clusters import PATIENCE, eventually


class World:
    """An API and a namespace in it."""

    def __init__(self, api, namespace):
        self.api = api
        self.namespace = namespace

    def gone(self, resource, key):
        """Wait until an object has ended: other hands than ours may have to finish it."""

        def ask():
            try:
                self.api.get(resource, key)
            except ApiError as error:
                if error.not_found:
                    return True
                raise
            return False

        eventually(ask)

    def watch(self, resource, **options):
        return Watcher(self.api.watch(resource, self.namespace, **options))


class MemoryWorld(World):
    def __init__(self, api):
        super().__init__(api, "default")

    def compact(self):
        self.api.compact()

    def clear(self, resources):
        """Nothing to do: nobody else lives here."""

    def seconds(self, count):
        """Time that a server counts in whole seconds goes faster here."""
        return count / 10

    def bind(self, key, node=NODE):
        self.api.bind(key, node)


class ServedWorld(MemoryWorld):
    """The one in memory, behind a real client and a real socket."""

    def __init__(self, api, memory):
        super().__init__(api)
        self._memory = memory

    def compact(self):
        self._memory.compact()

    def bind(self, key, node=NODE):
        ServerWorld.bind(self, key, node)


class ServerWorld(World):
    def __init__(self, api, cluster, namespace):
        super().__init__(api, namespace)
        self._cluster = cluster

    def compact(self):
        if self._cluster.plane is None:
            pytest.skip("only the store of a control plane of our own may be compacted")
        self._cluster.plane.compact()

    def seconds(self, count):
        return count

    def clear(self, resources):
        """Let go of what finalizers hold, and end the namespace."""
        for resource in resources:
            for item in self.api.list(resource, self.namespace).items:
                key = Key(self.namespace, item["metadata"]["name"])
                with suppress(ApiError):
                    self.api.patch(resource, key, {"metadata": {"finalizers": None}})
        self.api.delete(NAMESPACES, Key("", self.namespace))

    def bind(self, key, node=NODE):
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": key.name}, "target": target}
        self.api.request("POST", RAW_PODS.path(*key, "binding"), body=body)


class Watcher:
    """Reads a watch in the background, so that a test can wait for what it expects without hanging."""

    def __init__(self, watch):
        self.watch = watch
        self.events = []
        self.error = None
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for event in self.watch:
                self.events.append(event)
        except ApiError as error:
            self.error = error
        finally:
            self.ended.set()

    def take(self, count):
        """Wait for that many events, bookmarks left aside, and return all that came."""
        deadline = time.monotonic() + PATIENCE
        while len(self.seen()) < count and not self.ended.is_set():
            assert time.monotonic() < deadline, f"only {self.seen()} after {PATIENCE:g} s"
            time.sleep(0.005)
        return self.seen()

    def until(self, name):
        """Wait until an object of that name was told."""
        eventually(lambda: self.ended.is_set() or name in [told for _, told in self.seen()])
        assert self.error is None, self.error

    def seen(self):
        return [(e.type, e.object["metadata"]["name"]) for e in list(self.events) if e.type != "BOOKMARK"]

    def objects(self):
        return [e.object for e in list(self.events) if e.type != "BOOKMARK"]

    def end(self):
        """Wait until the stream has ended by itself."""
        assert self.ended.wait(PATIENCE), "the watch did not end"
        return self.error

    def close(self):
        self.watch.close()
        self.ended.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
