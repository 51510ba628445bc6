"""Streamable HTTP for the scripted MCP server. Each request is answered by a stream of events."""

import json
import queue
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import oauth_server

END = object()


class Session:
    """A client's session: the connection, and the streams that are open."""

    def __init__(self, options, make_connection):
        self.streams = {}
        self.general = queue.Queue()
        self.connection = make_connection(options, self.send)

    def send(self, message, request=None):
        self.streams.get(request, self.general).put(message)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments):
        pass

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/forget-sessions":
            self.server.sessions.clear()
            self.reply(200, {})
        elif path != "/mcp":
            self.authorization_request(None)
        elif self.is_allowed():
            session = self.find_session()
            if session is not None and self.server.options.no_stream:
                self.reply(405, {"error": "as told"})
            elif session is not None:
                self.stream(session.general)

    def do_DELETE(self):
        self.server.sessions.pop(self.headers.get("mcp-session-id"), None)
        self.reply(200, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.partition("?")[0] != "/mcp":
            self.authorization_request(body)
        elif self.is_allowed():
            self.take_message(json.loads(body))

    def authorization_request(self, body):
        authority = self.server.authority
        if authority is None or not authority.handle(self, body):
            self.reply(404, {"error": "not found"})

    def is_allowed(self):
        """Returns whether the request may go on, and answers it otherwise."""
        self.server.note(self.server.options, {"http": self.command, "path": self.path, "headers": dict(self.headers)})
        if self.server.options.fail_status:
            self.reply(self.server.options.fail_status, {"error": "as told"}, {"Location": "/mcp/"})
            return False
        authority = self.server.authority
        if authority is None or authority.accepts(self.headers.get("authorization")):
            return True
        self.reply(401, {"error": "invalid_token"}, {"WWW-Authenticate": authority.challenge()})
        return False

    def find_session(self, request=None):
        session = self.server.sessions.get(self.headers.get("mcp-session-id"))
        if session is None:
            self.refuse_session(request)
        return session

    def refuse_session(self, request):
        """Refuses an unknown session, as the protocol says or as many servers do."""
        form = self.server.options.unknown_session
        status = int(form.partition("-")[0])
        if status == 404:
            self.reply(404, {"error": "no such session"})
        elif form.endswith("-plain"):
            self.reply(status, {"error": "Session not found"})
        elif form.endswith("-first"):
            self.reply_error("Bad Request: Server not initialized")
        elif form.endswith("-events"):
            error = {"code": -32001, "message": "Session not found"}
            events = queue.Queue()
            for event in [{"jsonrpc": "2.0", "id": request, "error": error}, END]:
                events.put(event)
            self.stream(events)
        elif form.endswith("-words"):
            error = {"code": -32000, "message": "the session of the browser was not found"}
            self.reply(status, {"jsonrpc": "2.0", "id": request, "error": error})
        elif form.endswith("-id"):
            self.reply(status, {"jsonrpc": "2.0", "id": request,
                                "error": {"code": -32001, "message": "Session not found"}})
        else:
            self.reply_error("Bad Request: No valid session ID provided")

    def reply_error(self, message):
        """Refuses a request without naming it."""
        self.reply(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}})

    def take_message(self, message):
        headers = {}
        authority = self.server.authority
        if authority is not None and authority.refuses_scope(message, self.headers.get("authorization")):
            challenge = 'Bearer error="insufficient_scope", scope="admin"'
            self.reply(403, {"error": "insufficient_scope"}, {"WWW-Authenticate": challenge})
            return
        if message.get("method") == "initialize":
            number = secrets.token_hex(8)
            session = Session(self.server.options, self.server.make_connection)
            self.server.sessions[number] = session
            headers["Mcp-Session-Id"] = number
        elif message.get("method") == "server/discover":
            if self.server.options.discover == "never":
                threading.Event().wait()
            self.reply(200, {"jsonrpc": "2.0", "id": message["id"],
                             "error": {"code": -32601, "message": "Method not found"}})
            return
        else:
            session = self.find_session(message.get("id"))
            if session is None:
                return
        if message.get("method") == self.server.options.refuse:
            self.reply(400, {"error": "as told"})
            return
        if self.server.options.anonymous_errors and message.get("params", {}).get("name") == "refuse":
            self.reply_error("not today")
            return
        arguments = message.get("params", {}).get("arguments") or {}
        if "status" in arguments:
            self.reply_text(arguments["status"], arguments["body"].replace("ID", str(message["id"])), "application/json")
            if "later" in arguments:
                session.send(arguments["later"].replace("ID", str(message["id"])).encode())
            return
        if "method" not in message or "id" not in message:
            session.connection.receive(message)
            self.reply(202, None)
            return
        stream = queue.Queue()
        session.streams[message["id"]] = stream
        thread = session.connection.receive(message)

        def finish():
            thread.join()
            stream.put(END)
            session.streams.pop(message["id"], None)

        threading.Thread(target=finish, daemon=True).start()
        self.stream(stream, headers)

    def stream(self, events, headers=None):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

        def write_event(data):
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        try:
            # A sign of life, as some servers send it.
            write_event(b'event: ping\ndata: {"type":"ping"}\n\n')
            while True:
                event = events.get()
                if event is END:
                    self.wfile.write(b"0\r\n\r\n")
                    return
                data = event if isinstance(event, bytes) else json.dumps(event).encode()
                if not data.startswith((b"id:", b"event:")):
                    data = b"event: message\ndata: " + data.rstrip(b"\n") + b"\n\n"
                write_event(data)
        except OSError:
            self.close_connection = True

    def reply(self, status, body, headers=None):
        self.reply_text(status, "" if body is None else json.dumps(body), "application/json", headers)

    def reply_text(self, status, body, kind, headers=None):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True


def serve(options, make_connection, note):
    server = Server(("127.0.0.1", options.port), Handler)
    server.options = options
    server.make_connection = make_connection
    server.note = note
    server.sessions = {}
    origin = f"http://127.0.0.1:{server.server_address[1]}"
    server.authority = oauth_server.Authority(options, origin, note) if options.oauth else None
    print(f"{origin}/mcp", flush=True)
    server.serve_forever()
