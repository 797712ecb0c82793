"""Secrets that the tables hold, such as those of webhooks: encrypted where the server has a passphrase.

The passphrase (`DOKIMOS_ENCRYPTION_KEY`) and a salt of the database make a key (PBKDF2), by which each secret
is encrypted on its own (AES-256-GCM). A stored secret names its key, so that a passphrase can be replaced:
with the former one in `DOKIMOS_FORMER_ENCRYPTION_KEYS`, everything is encrypted anew (`secret_rotation`) when
the server starts.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select

from dokimos._core.extras import require
from dokimos.server._db.alert_tables import ENCRYPTION_KEYS
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, Lane
from dokimos.server._db.ids import new_id

_PLAIN: Final = "plain:"
_ENCRYPTED: Final = "v1:"
_ITERATIONS: Final = 600_000
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12


class SecretLost(Exception):
    """A secret cannot be decrypted; the message says why and what to do."""


class SecretVault:
    """Encrypts and decrypts secrets.

    Args:
        passphrases: The present one, and former ones, with which older secrets can still be read. Without
            any, secrets are stored as they are.

    Raises:
        MissingExtraError: There is a passphrase, and the package that encrypts is not installed.
    """

    def __init__(self, passphrases: Sequence[str] = ()) -> None:
        self._passphrases = tuple(passphrases)
        self._keys: dict[str, bytes] = {}
        self._foreign: set[str] = set()
        """Keys of the database that none of the passphrases makes."""
        self._present: str | None = None
        self._cipher: Any = None
        if passphrases:
            self._cipher = require("cryptography.hazmat.primitives.ciphers.aead", "encryption").AESGCM

    @property
    def encrypts(self) -> bool:
        """Whether `seal` encrypts, which it does where there is a passphrase, once the vault is open."""
        return self._present is not None

    async def open(self, database: Database) -> None:
        """Make the keys of the passphrases, and a new one where the present passphrase has none."""
        await self._load(database)
        if self._passphrases and self._present is None:
            salt = os.urandom(_SALT_BYTES)
            key = await asyncio.to_thread(_derive, self._passphrases[0], salt)
            key_id = await database.write(lambda connection: _add_key(connection, salt, key))
            self._keys[key_id] = key
            self._present = key_id

    async def learn_keys_of(self, database: Database, sealed: Iterable[str | None]) -> None:
        """Read the keys of secrets that another server has made since this one started."""
        unknown = {key_id for text in sealed if (key_id := _key_of(text)) is not None} - self._keys.keys()
        if self._passphrases and unknown - self._foreign:
            await self._load(database)
            self._foreign |= unknown - self._keys.keys()

    def seal(self, secret: str, owner: str) -> str:
        """Return a secret as it is stored; `owner` is the id of its row, and it can be read only there."""
        if self._present is None:
            return _PLAIN + secret
        nonce = os.urandom(_NONCE_BYTES)
        content = self._cipher(self._keys[self._present]).encrypt(nonce, secret.encode(), owner.encode())
        return f"{_ENCRYPTED}{self._present}:{base64.b64encode(nonce + content).decode()}"

    def unseal(self, sealed: str, owner: str) -> str:
        """Return a secret that was stored.

        Raises:
            SecretLost: Its key is not known, or it was not stored for this owner.
        """
        if sealed.startswith(_PLAIN):
            return sealed.removeprefix(_PLAIN)
        problem = self.find_problem(sealed)
        if problem is not None:
            raise SecretLost(problem)
        _, key_id, text = sealed.split(":", 2)
        try:
            content = base64.b64decode(text, validate=True)
            secret: bytes = self._cipher(self._keys[key_id]).decrypt(
                content[:_NONCE_BYTES], content[_NONCE_BYTES:], owner.encode()
            )
        except Exception:  # cryptography's InvalidTag, and what a cut value leads to
            raise SecretLost("The stored secret is damaged; set it again.") from None
        return secret.decode()

    def find_problem(self, sealed: str | None) -> str | None:
        """Say why a stored secret cannot be read, None where it can be, without decrypting it."""
        key_id = _key_of(sealed)
        if key_id is None or key_id in self._keys:
            return None
        if not self._passphrases:
            return (
                "The secret is encrypted, and this server has no key: start it with the "
                "DOKIMOS_ENCRYPTION_KEY that it had, or set the secret again."
            )
        return (
            "The secret is encrypted with another key: start the server with the DOKIMOS_ENCRYPTION_KEY that "
            "it had, name that one in DOKIMOS_FORMER_ENCRYPTION_KEYS, or set the secret again."
        )

    def is_current(self, sealed: str) -> bool:
        """Whether a stored secret is as `seal` would store it: with the present key, where there is one."""
        return _key_of(sealed) == self._present

    async def _load(self, database: Database) -> None:
        rows = await database.read(lambda c: c.execute(_ALL_KEYS).all(), Lane.WORK)
        await asyncio.to_thread(self._recognize, rows)

    def _recognize(self, rows: Sequence[Row[Any]]) -> None:
        """Find out which of the database's keys the passphrases make, the oldest first."""
        for row in rows:
            if row.id in self._keys or row.id in self._foreign:
                continue
            for passphrase in self._passphrases:
                key = _derive(passphrase, bytes.fromhex(row.salt))
                if hmac.compare_digest(_prove(key), row.proof):
                    self._keys[row.id] = key
                    if passphrase == self._passphrases[0] and self._present is None:
                        self._present = row.id
                    break
            else:
                self._foreign.add(row.id)


_ALL_KEYS: Final = select(ENCRYPTION_KEYS).order_by(ENCRYPTION_KEYS.c.created_at, ENCRYPTION_KEYS.c.id)


def _add_key(connection: Connection, salt: bytes, key: bytes) -> str:
    key_id = new_id()
    connection.execute(
        insert(ENCRYPTION_KEYS).values(id=key_id, salt=salt.hex(), proof=_prove(key), created_at=now())
    )
    return key_id


def _key_of(sealed: str | None) -> str | None:
    """The id of the key of a stored secret, None where it is not encrypted."""
    if sealed is None or not sealed.startswith(_ENCRYPTED):
        return None
    return sealed.split(":", 2)[1]


def _derive(passphrase: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, _ITERATIONS)


def _prove(key: bytes) -> str:
    """A text that tells whether a key is the right one, and nothing about the key."""
    return hmac.digest(key, b"dokimos: proof of a key", "sha256").hex()
