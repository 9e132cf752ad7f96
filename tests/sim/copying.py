"""A small controller to play with: for every ConfigMap there shall be a Secret of the same name."""

from genericjob.reconcile.controller import DONE, Controller
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.resources import CONFIG_MAPS, SECRETS, Key
from sim.world import World

NAMES = "abcd"


def copying(world, *, names=NAMES, workers=3):
    """A controller with all its threads, and a user who makes ConfigMaps one after the other."""
    process, api = world.process("controller")
    metrics = Metrics()
    queue = Queue(primitives=process, metrics=metrics.queue("maps"))

    def reconcile(key):
        try:
            api.get(SECRETS, key)
        except ApiError:
            api.create(SECRETS, {"metadata": {"name": key.name}}, key.namespace)
        return DONE

    def watching():
        with api.watch(CONFIG_MAPS, "default") as watch:
            for event in watch:
                if event.object:
                    queue.add(Key("default", event.object["metadata"]["name"]))

    controller = Controller(
        "maps",
        reconcile,
        queue=queue,
        workers=workers,
        primitives=process,
        metrics=metrics.controller("maps", workers),
        processor_time=lambda: 0.0,
    )
    process.start("watch", watching)
    controller.start()

    def typing():
        for name in names:
            world.api.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
            user.sleep(user.random())

    user = world.stepped.process("user")
    user.start("types", typing)
    return process, api


def secrets(world):
    """The names of all Secrets."""
    return {item["metadata"]["name"] for item in world.api.list(SECRETS, "default").items}


def a_run(seed):
    """The trace of a whole run."""
    with World(seed) as world:
        copying(world)
        world.stepped.advance(100)
        assert secrets(world) == set(NAMES)
        collect(world)
        world.stepped.advance(100)
        return world.stepped.trace


def collect(world):
    """A Secret that owns many ConfigMaps goes, and they with it."""
    owner = world.api.create(SECRETS, {"metadata": {"name": "owner"}}, "default").object
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
    for n in range(10):
        world.api.create(CONFIG_MAPS, {"metadata": {"name": f"owned-{n}", "ownerReferences": [reference]}}, "default")
    world.api.delete(SECRETS, Key("default", "owner"))
