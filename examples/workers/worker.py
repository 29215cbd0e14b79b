"""A worker for Pawl in Python, with the standard library only: python3 worker.py [SERVER] [QUEUE]

It takes the tasks of a queue, sends heartbeats with the page that was rendered last, and goes on from there in the next
attempt. It stops the work of a task that was cancelled. On SIGTERM it finishes what it has and takes no more. A server
that asks for a token gets that of the variable PAWL_TOKEN.
"""

import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

SERVER = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PAWL_SERVER", "http://127.0.0.1:7295")
QUEUE = sys.argv[2] if len(sys.argv) > 2 else "reports"
HEADERS = {"Content-Type": "application/json"}
if os.environ.get("PAWL_TOKEN"):
    HEADERS["Authorization"] = "Bearer " + os.environ["PAWL_TOKEN"].strip()
stopping = threading.Event()


class Refused(Exception):
    """The server has refused a request: the attempt has ended, the token is wrong, or the request makes no sense."""


class Stopped(Exception):
    """The attempt has ended without this worker: it was cancelled, or a limit has passed."""


def post(path, body):
    """Sends a request, again and again while the server does not answer or cannot take it now."""
    while True:
        request = urllib.request.Request(SERVER + "/api/v1" + path, json.dumps(body).encode(), HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:  # that is: too many requests
                raise Refused(json.loads(error.read()).get("detail", error.reason)) from error
        except (OSError, http.client.HTTPException):  # the latter: an answer that broke off
            pass
        if stopping.is_set() and path == "/tasks/poll":
            return {"tasks": []}
        time.sleep(1)


def heartbeat(task, details=None):
    answer = post(f"/tasks/{task['task']}/heartbeat", {} if details is None else {"details": details})
    if "stop" in answer:
        raise Stopped(answer["stop"])


def render(task):
    """The work. It begins where the attempt before it has left off."""
    done = (task.get("details") or {}).get("page", 0)
    for page in range(done + 1, task["input"]["pages"] + 1):
        time.sleep(0.2)
        heartbeat(task, {"page": page})
    return {"rendered": task["input"]["pages"]}


def execute(task):
    path = f"/tasks/{task['task']}"
    try:
        try:
            output = {"Render": render}[task["type"]](task)
        except Stopped as why:
            print(f"stopped {task['step']} of run {task['run']}: {why}", flush=True)
            post(path + "/stopped", {})
        except Refused:
            raise
        except Exception as error:  # whatever is wrong with the work
            post(path + "/fail", {"kind": "error", "type": type(error).__name__, "message": str(error)})
        else:
            post(path + "/complete", {"output": output})
    except Refused as late:
        print(f"a report came too late: {late}", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    print(f"executing tasks of {QUEUE}", flush=True)
    while not stopping.is_set():
        tasks = post("/tasks/poll", {"queue": QUEUE, "worker": f"python {os.getpid()}", "types": ["Render"], "wait": "5s"})
        for task in tasks["tasks"]:
            execute(task)


try:
    main()
except Refused as why:
    sys.exit(str(why))
