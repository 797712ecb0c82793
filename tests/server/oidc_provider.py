"""An identity provider on this machine, over real HTTP, that also does what no provider should."""

import base64
import hmac
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core.util import create_half_hash
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

CLIENT_ID = "dokimos"
CLIENT_SECRET = "s3cret & more"
ADA = {"sub": "ada-1", "name": "Ada", "email": "ada@acme.example", "email_verified": True, "groups": ["ml"]}


class Provider:
    """A provider that signs in whoever asks as `person`.

    Its attributes say what it does: `metadata`, `claims` and `header` are merged into what is right, `key`
    signs, `tokens` makes an ID token of its own.
    """

    def __init__(self):
        self.person = dict(ADA)
        self.metadata, self.claims, self.header, self.userinfo = {}, {}, {}, None
        self.key = self.new_key("first")
        self.published = [self.key]
        self.tokens = None
        self.forgets_codes = True
        self.codes = {}
        self.requests = []
        self.access_token = secrets.token_urlsafe(16)
        self.status = 200
        self.server = None

    @staticmethod
    def new_key(name):
        return RSAKey.generate_key(2048, {"kid": name, "use": "sig"})

    @staticmethod
    def new_curve_key(name):
        return ECKey.generate_key("P-256", {"kid": name, "use": "sig"})

    def start(self, port=0):
        self.server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.port = self.server.server_address[1]
        self.issuer = f"http://127.0.0.1:{self.port}/realms/acme"

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def describe(self):
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?flavor=plain",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "end_session_endpoint": f"{self.issuer}/logout",
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
            **self.metadata,
        }

    def sign_in(self, address):
        """Follow the redirect of the server as a browser would; return the query of the answer."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert query["flavor"] == "plain"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def exchange(self, form, authorization):
        """The answer of the token endpoint."""
        method, _, login = authorization.partition(" ")
        if method == "Basic":
            assert base64.b64decode(login).decode() == "dokimos:s3cret+%26+more"
        elif form.get("client_secret") != CLIENT_SECRET:
            return 401, {"error": "invalid_client"}
        request = self.codes.get(form["code"])
        if request is None:
            return 400, {"error": "invalid_grant", "error_description": f"no code {form['code']}"}
        if self.forgets_codes:
            del self.codes[form["code"]]
        assert form["grant_type"] == "authorization_code"
        assert form["redirect_uri"] == request["redirect_uri"]
        assert create_s256_code_challenge(form["code_verifier"]) == request["code_challenge"]
        return 200, {
            "access_token": self.access_token,
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": self.make_token(request["nonce"]),
        }

    def make_token(self, nonce):
        now = int(time.time())
        claims = {
            **self.person,
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "at_hash": create_half_hash(self.access_token, "RS256").decode(),
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.tokens is not None:
            return self.tokens(claims)
        algorithm = "ES256" if isinstance(self.key, ECKey) else "RS256"
        header = {"alg": algorithm, "kid": self.key.kid, **self.header}
        header = {name: value for name, value in header.items() if value is not None}
        return jwt.encode(header, claims, self.key, algorithms=[algorithm])

    def unsigned(self, claims):
        return f"{_encode({'alg': 'none', 'kid': self.key.kid})}.{_encode(claims)}."

    def signed_with_the_public_key(self, claims):
        """As if the public key were a secret that both sides share; libraries refuse to do that."""
        content = f"{_encode({'alg': 'HS256', 'kid': self.key.kid})}.{_encode(claims)}"
        mac = hmac.digest(self.key.as_pem(private=False), content.encode(), "sha256")
        return f"{content}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"

    def signed_with_the_client_secret(self, claims):
        secret = OctKey.import_key(CLIENT_SECRET * 3)
        return jwt.encode({"alg": "HS256", "kid": self.key.kid}, claims, secret, algorithms=["HS256"])


def _encode(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _handler(provider):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = urlsplit(self.path).path
            provider.requests.append(path)
            if path.endswith("/.well-known/openid-configuration"):
                self.answer(provider.status, provider.describe())
            elif path.endswith("/keys"):
                self.answer(200, {"keys": [key.as_dict(private=False) for key in provider.published]})
            elif path.endswith("/userinfo"):
                assert self.headers["authorization"] == f"Bearer {provider.access_token}"
                self.answer(200, provider.userinfo or {})
            else:
                self.answer(404, {})

        def do_POST(self):
            provider.requests.append(urlsplit(self.path).path)
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self.answer(*provider.exchange(form, self.headers.get("authorization", "")))

        def answer(self, status, value):
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    return Handler
