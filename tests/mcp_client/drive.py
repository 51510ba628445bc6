#!/usr/bin/env python3
"""Uses an MCP server through agentls itself, for the conformance suite of MCP; see tests/mcp_client/run.sh.

    AGENTLS=target/debug/agentls python3 tests/mcp_client/drive.py http://127.0.0.1:3000/mcp

It plays the model, the editor, the user, and the browser. The model calls the tools that the suite names, or each once;
the user fills in forms with their defaults; the browser agrees to each login.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request

SERVER = "peer"
PREFIX = f"mcp__{SERVER}__"
# A login may need another one, for a scope.
ROUNDS = 4
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


def make_arguments(schema):
    """Makes arguments of the right types: 5 and 3 are what the suite adds."""
    numbers = iter([5, 3] * 20)
    made = {"integer": lambda: next(numbers), "number": lambda: next(numbers), "boolean": lambda: True, "array": list,
            "object": dict}
    return {name: (value.get("enum") or [made.get(value.get("type"), lambda: "text")()])[0]
            for name, value in schema.get("properties", {}).items()}


class Model(http.server.BaseHTTPRequestHandler):
    """A model that calls tools, and then ends its turn."""

    protocol_version = "HTTP/1.1"
    results = []

    def log_message(self, *_arguments):
        pass

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        tools = [tool["function"] for tool in request.get("tools", [])]
        offered = {tool["name"]: tool for tool in tools if tool["name"].startswith(PREFIX)}
        delta = {"role": "assistant", "content": "done"}
        if offered and not results:
            named = CONTEXT.get("toolCalls")
            calls = [(PREFIX + call["name"], call["arguments"]) for call in named] if named else [
                (name, make_arguments(tool["parameters"])) for name, tool in offered.items()]
            delta["tool_calls"] = [
                {"index": index, "id": f"call_{index}", "type": "function",
                 "function": {"name": name, "arguments": json.dumps(arguments)}}
                for index, (name, arguments) in enumerate(calls)]
        Model.results = results
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]
        body = "".join(f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', **chunk})}\n\n" for chunk in chunks)
        data = f"{body}data: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Editor:
    """The client of agentls."""

    def __init__(self, command, env, folder):
        self.process = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        self.call("initialize", {
            "processId": None, "workspaceFolders": [{"uri": f"file://{folder}", "name": "work"}],
            "capabilities": {"experimental": {"agent": {"client": {"questions": True}}}}})
        self.send({"method": "initialized", "params": {}})

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()) or not length:
            if not line and self.process.poll() is not None:
                raise SystemExit("agentls has ended")
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self.process.stdout.read(length))

    def call(self, method, params):
        """Sends a request, and answers questions until its result comes."""
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]
            if message.get("method") == "agent/questionRequested":
                question = message["params"]
                answer = {"answers": {}} if question.get("fields") else {"dismissed": True}
                self.number += 1
                self.send({"id": self.number, "method": "agent/questionRespond",
                           "params": {"questionId": question["questionId"], **answer}})

    def close(self):
        self.call("shutdown", None)
        self.send({"method": "exit"})
        self.process.wait(20)


def log_in(agentls, env, folder):
    """Logs in as a user with a browser that agrees. Returns whether there is a reason to go on."""
    is_refused = False
    login = subprocess.Popen([*agentls, "mcp", "login", SERVER], env=env, cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    for line in login.stdout:
        print("login:", line.rstrip())
        # The next login finds out who logs people in now.
        is_refused |= "refuses the token of the last login" in line
        for word in line.split():
            if word.startswith("http") and "code_challenge" in word:
                try:
                    urllib.request.urlopen(word, timeout=20).read()
                except OSError as error:
                    print("browser:", error)
    return login.wait() == 0 or is_refused


def write_config(folder, model, url):
    client = ""
    if "client_id" in CONTEXT:
        client = f'oauth_client_id = "{CONTEXT["client_id"]}"\n'
    if "client_secret" in CONTEXT:
        client += 'oauth_client_secret_env = "CLIENT_SECRET"\n'
    os.makedirs(os.path.join(folder, "config/agentls"))
    with open(os.path.join(folder, "config/agentls/config.toml"), "w", encoding="utf-8") as config:
        config.write(f"""
[provider.model]
kind = "openai"
base_url = "{model}"
api_key = "key"
model = "model"
[agent.default]
provider = "model"
[approvals]
allow = ["mcp:*"]
[mcp.{SERVER}]
url = "{url}"
startup_timeout_s = 60
sampling = true
{client}""")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agentls = [os.path.abspath(os.environ["AGENTLS"])]
    with tempfile.TemporaryDirectory(prefix="agentls-mcp-") as folder:
        folder = os.path.realpath(folder)
        work = os.path.join(folder, "work")
        os.mkdir(work)
        write_config(folder, f"http://127.0.0.1:{server.server_address[1]}/v1", sys.argv[-1])
        env = {"PATH": os.environ["PATH"], "HOME": folder, "CLIENT_SECRET": CONTEXT.get("client_secret", ""),
               **{f"XDG_{kind}_HOME": os.path.join(folder, kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}}
        editor = Editor(agentls, env, work)
        for _ in range(ROUNDS):
            session = editor.call("agent/newSession", {})["sessionId"]
            editor.call("agent/prompt", {"sessionId": session, "prompt": "Call the tools."})
            state = editor.call("agent/listMcpServers", {})["servers"][0]
            print("results:", Model.results, "\nserver:", json.dumps(state))
            if "ogin" not in json.dumps([state["state"], Model.results]) or not log_in(agentls, env, work):
                break
        editor.close()
    return 0 if state["state"] == "ready" else 1


sys.exit(main())
