"""The bare limit: ready pod bodies, POSTed on some connections by a program that does nothing else, while one watch on those pods is open.

    python -m bench.bare KUBECONFIG NAMESPACE BODIES        (a file with one body per line)

Says "ready" when its watch is open, begins when a line comes in, says "done" when everything is sent, and ends when its input does.
"""

import http.client
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import PODS, RAW_PODS

CONNECTIONS = 8


def main(kubeconfig: str, namespace: str, bodies: Path) -> None:
    credentials = from_kubeconfig(kubeconfig)
    access = credentials.current
    sent = bodies.read_bytes().splitlines()
    api = HttpApi(credentials)
    watch = api.watch(PODS, namespace, resource_version=api.list(PODS, namespace).resource_version)
    seen: list[object] = []
    threading.Thread(target=lambda: seen.extend(watch), daemon=True).start()
    opened = [http.client.HTTPSConnection(access.host, access.port, context=access.tls) for _ in range(CONNECTIONS)]
    for connection in opened:
        connection.connect()  # a controller has its connections open, too
    sent_all = threading.Semaphore(0)
    headers = {"Content-Type": "application/json"} | ({"Authorization": access.authorization} if access.authorization else {})

    def post(connection: http.client.HTTPSConnection, part: Sequence[bytes]) -> None:
        for body in part:
            connection.request("POST", RAW_PODS.path(namespace), body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 201:
                raise RuntimeError(f"the server answered {answer.status}")
        sent_all.release()
        threading.Event().wait()  # a thread that ends takes its processor time along

    print("ready", flush=True)
    sys.stdin.readline()
    for number, connection in enumerate(opened):
        threading.Thread(target=post, args=(connection, sent[number::CONNECTIONS]), daemon=True).start()
    for _ in opened:
        sent_all.acquire()
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
