"""Encrypt the secrets of a database with the present passphrase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sqlalchemy.exc import DatabaseError

from dokimos.errors import ConfigurationError
from dokimos.server._admin.databases import describe_database, hold_database, record_command
from dokimos.server._admin.upgrading import find_upgrade
from dokimos.server._db.database import DatabaseUnavailable, open_database
from dokimos.server._services.encryption.secret_rotation import Rotation, rotate_secrets
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._settings import ServerSettings


def rotate_keys(
    settings: ServerSettings, *, progress: Callable[[str, int], None] = lambda kind, count: None
) -> Rotation:
    """Encrypt all secrets with the passphrase of the settings, in small transactions.

    What is killed in between is continued by the next call. On PostgreSQL servers may run meanwhile, if they
    know both passphrases.

    Args:
        settings: Name the database, the present passphrase and former ones.
        progress: Hears how many secrets of each kind were looked at.

    Raises:
        ConfigurationError: There is no passphrase, the database cannot be used or is not up to date, or a
            server is running on the SQLite file.
    """
    if not settings.encryption_keys:
        raise ConfigurationError(
            "DOKIMOS_ENCRYPTION_KEY is not set: set it to the new passphrase, and "
            "DOKIMOS_FORMER_ENCRYPTION_KEYS to the one that is to be replaced.",
            setting="DOKIMOS_ENCRYPTION_KEY",
        )
    if find_upgrade(settings).pending:
        raise ConfigurationError(
            f"{describe_database(settings)} is not up to date; run this first: dokimos db upgrade"
        )
    with hold_database(settings, "A rotation"):
        try:
            return asyncio.run(_rotate(settings, progress))
        except (DatabaseUnavailable, DatabaseError) as error:
            raise ConfigurationError(
                f"The database cannot be used: {error}. What was encrypted so far is stored; run the command "
                "again."
            ) from error


async def _rotate(settings: ServerSettings, progress: Callable[[str, int], None]) -> Rotation:
    database = open_database(settings)
    await database.open()
    try:
        vault = SecretVault(settings.encryption_keys)
        await vault.open(database)
        rotation = await rotate_secrets(database, vault, progress=progress)
        if rotation.changed.total():
            details = {"secrets": rotation.changed.total(), "lost": len(rotation.lost)}
            await database.write(lambda connection: record_command(connection, "db.rotate-key", details))
        return rotation
    finally:
        await database.close()
