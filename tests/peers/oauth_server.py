"""A small OAuth 2.1 authorization server for the scripted MCP server, at the same origin.

It checks what a client must do (PKCE with S256, the exact redirect, the resource, one use of each code and refresh
token), and misbehaves by `--oauth-fault`:

deny               the user denies
no_registration    clients cannot register; only the client id `known-client` exists
no_pkce            the metadata does not list S256
plain_pkce         the metadata lists only `plain`
wrong_issuer       the metadata names another issuer
wrong_resource     the resource metadata names another resource
wrong_iss          the redirect names another issuer
wrong_state        the redirect has another state
plain_http         the token endpoint is http on a host that is not this machine
metadata_address   the resource metadata is at the address of a cloud's metadata service
private_issuer     the authorization server is at a private address
redirecting_token  the token endpoint redirects elsewhere
other_token        the type of the token is not Bearer
refuse_refresh     refresh tokens are refused
refuse_revocation  tokens cannot be revoked
secret_field       to revoke a token, also a client without a secret must send the field for it
huge_metadata      the metadata has 64 MiB
relative_metadata  the challenge names the resource metadata by a path only
page_metadata      a page is where the metadata of the path is looked for first
other_metadata     JSON of another form is there
relative_endpoints all addresses in the metadata are paths only
no_metadata        there is no metadata at all, and the login has other paths than the first standard expects
no_paths           there is no metadata, and the login is where the first standard expects it
rejecting          every token is refused by the resource
step_up            calls of tools need the scope `admin`
insufficient_scope calls of tools need the scope `admin`, and no token has it
secret_basic       the client `known-client` has the secret `pass:word+1`, which is sent in the header
secret_post        the same, but it is sent in the body
other_secret       clients identify themselves in another way
github             the token endpoint answers with a form unless JSON is accepted, and refuses with HTTP 200

`GET /revoke?access` forgets the access tokens, and `GET /revoke?all` the refresh tokens too.
"""

import base64
import hashlib
import json
import secrets
import time
import urllib.parse


class Authority:
    def __init__(self, options, origin, note):
        self.fault = options.oauth_fault
        self.lifetime = options.oauth_lifetime
        self.options = options
        self.origin = origin
        self.resource = f"{origin}/mcp"
        self.log = note
        self.clients = {"known-client": None}
        self.codes = {}
        self.scopes = {}
        self.tokens = {}
        self.refresh_tokens = {}

    def note(self, **event):
        self.log(self.options, {"oauth": event})

    def challenge(self):
        at = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
        if self.fault == "relative_metadata":
            at = "/.well-known/oauth-protected-resource/mcp"
        if self.fault in ("page_metadata", "other_metadata"):
            return 'Bearer error="invalid_token"'
        if self.fault == "metadata_address":
            at = "http://169.254.169.254/latest/meta-data/"
        if self.fault in ("no_metadata", "no_paths"):
            return 'Bearer error="invalid_token"'
        return f'Bearer realm="peer", error="invalid_token", scope="notes", resource_metadata="{at}"'

    def accepts(self, header):
        kind, _, token = (header or "").partition(" ")
        expires = self.tokens.get(token)
        is_good = kind == "Bearer" and expires is not None and time.time() < expires and self.fault != "rejecting"
        self.note(step="access", given=bool(header), accepted=is_good)
        return is_good

    def refuses_scope(self, message, header):
        has_scope = "admin" in self.scopes.get((header or "").partition(" ")[2], "").split()
        is_refused = self.fault == "insufficient_scope" or (self.fault == "step_up" and not has_scope)
        return is_refused and message.get("method") == "tools/call"

    def revoke(self, handler, what):
        self.tokens.clear()
        if what == "all":
            self.refresh_tokens.clear()
        handler.reply(200, {})

    def handle(self, handler, body):
        """Answers a request about authorization. Returns false if there is no such path."""
        path, _, query = handler.path.partition("?")
        self.note(step="request", method=handler.command, path=path, accept=handler.headers.get("accept"),
                  authorization=handler.headers.get("authorization"))
        if path == "/revoke":
            self.revoke(handler, query)
            return True
        query = dict(urllib.parse.parse_qsl(query))
        hides = {"no_metadata": ("/.well-known/", "/register"), "no_paths": ("/.well-known/",)}
        if path.startswith(hides.get(self.fault, ("?",))):
            return False
        routes = {
            "/.well-known/oauth-protected-resource/mcp": lambda: self.resource_metadata(handler),
            "/.well-known/oauth-protected-resource": lambda: self.resource_metadata(handler),
            "/.well-known/oauth-authorization-server": lambda: self.server_metadata(handler),
            "/register": lambda: self.register(handler, json.loads(body)),
            "/authorize": lambda: self.authorize(handler, query),
            "/revocation": lambda: self.revocation(
                handler, self.with_client(handler, dict(urllib.parse.parse_qsl((body or b"").decode(), True)))),
            "/token": lambda: self.token(handler, self.with_client(handler, dict(urllib.parse.parse_qsl((body or b"").decode())))),
        }
        route = routes.get(path)
        if self.fault == "page_metadata" and path == "/.well-known/oauth-protected-resource/mcp":
            handler.send_response(200)
            handler.send_header("content-type", "text/html")
            handler.send_header("content-length", "13")
            handler.end_headers()
            handler.wfile.write(b"<html></html>")
            return True
        if self.fault == "other_metadata" and path == "/.well-known/oauth-protected-resource/mcp":
            handler.reply(200, {"detail": "not here"})
            return True
        if route is None:
            return False
        route()
        return True

    def resource_metadata(self, handler):
        resource = "https://other.example/mcp" if self.fault == "wrong_resource" else self.resource
        server = "https://10.1.2.3/" if self.fault == "private_issuer" else self.origin
        if self.fault == "relative_endpoints":
            resource, server = "/mcp", "/"
        handler.reply(200, {"resource": resource, "authorization_servers": [server], "scopes_supported": ["notes"],
                            "bearer_methods_supported": ["header"]})

    def server_metadata(self, handler):
        methods = {"no_pkce": None, "plain_pkce": ["plain"]}.get(self.fault, ["S256"])
        metadata = {
            "issuer": "https://other.example" if self.fault == "wrong_issuer" else self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": "http://peer.example/token" if self.fault == "plain_http" else f"{self.origin}/token",
            "revocation_endpoint": f"{self.origin}/revocation",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": methods,
            "token_endpoint_auth_methods_supported": {
                "secret_basic": None, "github": None, "secret_post": ["client_secret_post"], "other_secret": ["private_key_jwt"],
            }.get(self.fault, ["none"]),
            "authorization_response_iss_parameter_supported": True,
        }
        if self.fault != "no_registration":
            metadata["registration_endpoint"] = f"{self.origin}/register"
        if self.fault == "huge_metadata":
            metadata["padding"] = "x" * (64 << 20)
        if self.fault == "relative_endpoints":
            for key in metadata:
                if key.endswith("_endpoint"):
                    metadata[key] = metadata[key].removeprefix(self.origin)
        handler.reply(200, {key: value for key, value in metadata.items() if value is not None})

    def with_client(self, handler, request):
        """Returns the request with the client id; that of a client whose secret is wrong becomes None."""
        way = {"secret_basic": "header", "secret_post": "body"}.get(self.fault)
        kind, _, value = (handler.headers.get("authorization") or "").partition(" ")
        sent = None
        if kind == "Basic":
            client, _, secret = base64.b64decode(value).decode().partition(":")
            request = {"client_id": urllib.parse.unquote_plus(client), **request}
            sent = ("header", urllib.parse.unquote_plus(secret))
        elif request.get("client_secret"):
            sent = ("body", request["client_secret"])
        if sent != (way and (way, "pass:word+1")):
            return {**request, "client_id": None}
        return request

    def revocation(self, handler, request):
        if self.fault == "secret_field" and "client_secret" not in request:
            handler.reply(400, {"error": "invalid_request", "error_description": "client_secret: Field required"})
            return
        client = self.refresh_tokens.get(request.get("token"))
        is_known = client is not None and client == request.get("client_id")
        self.note(step="revocation", kind=request.get("token_type_hint"), known=is_known)
        if self.fault == "refuse_revocation":
            handler.reply(503, {"error": "temporarily_unavailable"})
            return
        if is_known:
            self.refresh_tokens.pop(request["token"])
            self.tokens.clear()
        # An unknown token is no error (RFC 7009).
        handler.reply(200, {})

    def register(self, handler, request):
        if self.fault == "no_registration":
            handler.reply(403, {"error": "access_denied"})
            return
        redirects = request.get("redirect_uris") or []
        if not redirects or not all(uri.startswith("http://127.0.0.1:") for uri in redirects):
            handler.reply(400, {"error": "invalid_redirect_uri"})
            return
        client = "client-" + secrets.token_hex(8)
        self.clients[client] = redirects
        self.note(step="register", request=request)
        handler.reply(201, {**request, "client_id": client, "client_id_issued_at": int(time.time())})

    def authorize(self, handler, query):
        client, redirect = query.get("client_id"), query.get("redirect_uri", "")
        known = self.clients.get(client, ())
        is_wrong = (
            client not in self.clients
            or (known is not None and redirect not in known)
            or not redirect.startswith("http://127.0.0.1:")
        )
        if is_wrong:
            handler.reply(400, {"error": "unknown client or redirect"})
            return
        answer = {"state": query.get("state", ""), "iss": self.origin}
        if self.fault == "wrong_state":
            answer["state"] = "another"
        if self.fault == "wrong_iss":
            answer["iss"] = "https://other.example"
        problem = None
        if query.get("response_type") != "code":
            problem = "unsupported_response_type"
        elif query.get("code_challenge_method") != "S256" or len(query.get("code_challenge", "")) != 43:
            problem = "invalid_request"
        elif query.get("resource") != self.resource:
            problem = "invalid_target"
        elif self.fault == "deny":
            problem = "access_denied"
        if problem:
            answer.update(error=problem, error_description="The user said no.")
        else:
            code = "code-" + secrets.token_hex(16)
            self.codes[code] = (client, redirect, query["code_challenge"], query["resource"], time.time() + 60)
            self.scopes[code] = query.get("scope", "")
            answer["code"] = code
        self.note(step="authorize", problem=problem, scope=query.get("scope"))
        handler.send_response(302)
        handler.send_header("Location", f"{redirect}?{urllib.parse.urlencode(answer)}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def token(self, handler, request):
        if self.fault == "redirecting_token":
            handler.send_response(307)
            handler.send_header("Location", f"{self.origin}/stolen")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        kind = request.get("grant_type")
        problem = self.check_code(request) if kind == "authorization_code" else self.check_refresh(request)
        self.note(step="token", grant=kind, problem=problem)
        if problem:
            status = 200 if self.fault == "github" else 400
            handler.reply(status, {"error": problem, "error_description": "as the request deserves"})
            return
        token, refresh = "token-" + secrets.token_hex(16), "refresh-" + secrets.token_hex(16)
        self.tokens[token] = time.time() + self.lifetime
        self.refresh_tokens[refresh] = request.get("client_id")
        scope = self.scopes.get(request.get("code") or request.get("refresh_token"), "")
        self.scopes[token] = self.scopes[refresh] = scope
        answer = {"access_token": token, "token_type": "mac" if self.fault == "other_token" else "Bearer",
                  "expires_in": self.lifetime, "refresh_token": refresh, "scope": scope}
        if self.fault == "github" and handler.headers.get("accept") != "application/json":
            handler.reply_text(200, urllib.parse.urlencode(answer), "application/x-www-form-urlencoded")
        else:
            handler.reply(200, answer)

    def check_code(self, request):
        # A code can be used once, even wrongly.
        client, redirect, challenge, resource, expires = self.codes.pop(request.get("code"), (None,) * 5)
        digest = hashlib.sha256(request.get("code_verifier", "").encode()).digest()
        is_good = (
            client is not None
            and time.time() < expires
            and request.get("client_id") == client
            and request.get("redirect_uri") == redirect
            and request.get("resource") == resource
            and base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        )
        return None if is_good else "invalid_grant"

    def check_refresh(self, request):
        if request.get("grant_type") != "refresh_token":
            return "unsupported_grant_type"
        client = self.refresh_tokens.pop(request.get("refresh_token"), None)
        if self.fault == "refuse_refresh" or client is None or client != request.get("client_id"):
            return "invalid_grant"
        return None if request.get("resource") == self.resource else "invalid_target"
