"""Request source and backend of OncePoint for ../shared/crash/campaign.py.

ONCEPOINT_CRASH_SITE is a folder that `testbed site` wrote, ONCEPOINT_CRASH_TESTBED the testbed binary. Messages
are composed in batches (`testbed compose`), the first before the load begins.
"""
import json
import os
import pathlib
import subprocess
import tempfile

SITE = pathlib.Path(os.environ["ONCEPOINT_CRASH_SITE"])
TESTBED = os.environ["ONCEPOINT_CRASH_TESTBED"]
BATCH = int(os.environ.get("ONCEPOINT_CRASH_BATCH", "6000"))


class Source:
    def __init__(self, seed):
        self.digests, self.waiting, self.bodies = {}, [], b""
        self.compose()

    def compose(self):
        """The next batch. Held in memory: a repeat must be the same bytes."""
        with tempfile.TemporaryDirectory(dir=SITE) as out:
            subprocess.run([TESTBED, "compose", str(BATCH), out, "--site", str(SITE)], check=True)
            bodies = pathlib.Path(out, "messages.bin").read_bytes()
            lines = pathlib.Path(out, "messages.tsv").read_text().splitlines()
        for line in lines:
            message_id, content_type, offset, length, sha256 = line.split("\t")
            body = bodies[int(offset):int(offset) + int(length)]
            self.digests[body] = sha256
            self.waiting.append((message_id, {"Content-Type": content_type}, body))

    def next(self):
        if not self.waiting:
            self.compose()
        return self.waiting.pop()

    def accepted(self, status, headers, body):
        return status == 200 and b"Receipt" in body and b"errorCode" not in body

    def digest(self, body):
        return self.digests[body]


class Backend:
    def __init__(self, call, ports):
        self.base = f"http://127.0.0.1:{ports['port2']}"
        self.http = call
        self.leases = {}

    def json(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        status, _, answer = self.http(method, self.base + path, {"Content-Type": "application/json"}, data)
        if status >= 300:
            raise OSError(f"{method} {path}: {status} {answer[:200]!r}")
        return json.loads(answer)

    def list_deliveries(self):
        found = {}
        # Leased first: an item whose lease ends meanwhile is then seen twice under one id, never missed.
        for state in ("leased", "available"):
            cursor = ""
            while cursor is not None:
                page = self.json("GET", f"/v1/inbound?state={state}&limit=1000{cursor}")
                for item in page["items"]:
                    found[item["id"]] = (item["message_id"], item["id"], item["sbd_sha256"])
                cursor = f"&cursor={page['next_cursor']}" if page.get("next_cursor") else None
        return list(found.values())

    def ack(self, delivery):
        lease = self.leases.get(delivery)
        if lease is None:
            got = self.json("POST", "/v1/inbound/claim", {"max": 1, "lease_s": 1, "filter": {"ids": [delivery]}})
            lease = next((item["lease"] for item in got["items"] if item["id"] == delivery), None)
            if lease is None:
                raise OSError(f"{delivery} is leased to somebody else")
            self.leases[delivery] = lease
        result = self.json("POST", "/v1/inbound/ack", [{"id": delivery, "lease": lease}])["results"][0]["result"]
        if result == "lease_superseded":
            del self.leases[delivery]
        if result not in ("acked", "already_acked"):
            raise OSError(f"ack of {delivery}: {result}")
