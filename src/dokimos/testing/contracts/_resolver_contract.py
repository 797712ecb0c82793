"""What every resolver of data sets must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

import pytest

from dokimos._core.example import Example
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.datasets._resolver import DatasetResolver, register_resolver, unregister_resolver
from dokimos.errors import DatasetError
from dokimos.testing.contracts._contract_failure import attempt, check, fail, missing_attribute, name_of

_ODD_URIS: Final = (":", "://", "no-such-scheme:", "C:\\data\\faq.csv", "日本語", "a" * 5_000, "a\x00b")


class ResolverContract:
    """Tests of one resolver.

    A subclass names what to load::

        class TestS3(ResolverContract):
            resolver = S3Resolver()
            uri = "s3://bucket/faq.jsonl"
            missing_uri = "s3://bucket/no-such-file.jsonl"
    """

    resolver: ClassVar[DatasetResolver | None] = None
    uri: ClassVar[str] = ""
    """A data set of at least one example."""
    missing_uri: ClassVar[str] = ""
    """A URI that it is responsible for and that names nothing."""
    foreign_uri: ClassVar[str] = "some-other-scheme://host/data"
    """One that it is not responsible for; empty for a resolver of everything."""
    columns: ClassVar[Mapping[str, str] | None] = None
    """A mapping of columns under which the data set at `uri` reads differently, where it has columns."""

    @property
    def tested(self) -> DatasetResolver:
        """The resolver under test."""
        if self.resolver is None:
            missing_attribute(self, "resolver", "resolver = MyResolver()")
        return self.resolver

    @property
    def known_uri(self) -> str:
        """The URI of a data set."""
        return self.uri or missing_attribute(self, "uri", 'uri = "my-scheme:faq"')

    def test_it_knows_what_it_is_responsible_for(self) -> None:
        supported = self.tested.supports(self.known_uri)
        check(supported is True, f"{name_of(self.tested)}.supports({self.uri!r}) must return True.")
        if self.foreign_uri:
            check(
                self.tested.supports(self.foreign_uri) is False,
                f"{name_of(self.tested)}.supports({self.foreign_uri!r}) must be False: the first resolver "
                "that says yes is asked, so others would never be.",
            )

    def test_it_can_be_asked_about_anything(self) -> None:
        for uri in _ODD_URIS:
            answer = attempt(
                lambda uri=uri: self.tested.supports(uri),  # type: ignore[misc] # bound at once
                f"{name_of(self.tested)}.supports({uri[:40]!r}) must return a bool.",
            )
            check(
                isinstance(answer, bool),
                f"{name_of(self.tested)}.supports() must return a bool, not {answer!r}.",
            )

    def test_load_and_stream_agree(self) -> None:
        loaded, streamed = self._load(), self._stream()
        check(len(loaded) > 0, f"Give {type(self).__name__} a uri whose data set has examples.")
        check(
            list(loaded) == streamed,
            f"{name_of(self.tested)} must give the same examples, in the same order, by load() and stream().",
        )
        check(
            all(isinstance(example, Example) for example in streamed),
            f"{name_of(self.tested)} must give Example objects.",
        )

    def test_it_gives_the_same_each_time(self) -> None:
        check(
            self._load() == self._load(), f"{name_of(self.tested)}.load() must give the same data set again."
        )
        stream = self.tested.stream(self.known_uri)
        check(
            list(stream) == list(stream),
            f"A stream of {name_of(self.tested)} must begin anew each time: repeats of a run read it "
            "several times. Give DatasetStream a function that opens the source.",
        )

    def test_columns_are_honoured(self) -> None:
        if self.columns is None:
            pytest.skip("it names no columns")
        loaded = self._load(self.columns)
        check(
            loaded != self._load(),
            f"{name_of(self.tested)}.load() must use `columns`; {dict(self.columns)} changed nothing.",
        )
        check(
            list(loaded) == self._stream(self.columns),
            f"{name_of(self.tested)}.stream() must use `columns` like load().",
        )

    def test_errors_name_the_uri(self) -> None:
        if not self.missing_uri:
            missing_attribute(self, "missing_uri", 'missing_uri = "my-scheme:no-such-data-set"')
        self._expect_error(lambda: self.tested.load(self.missing_uri), "load")
        self._expect_error(lambda: list(self.tested.stream(self.missing_uri)), "stream")

    def test_it_is_used_once_it_is_registered(self) -> None:
        register_resolver(self.tested)
        try:
            check(
                Dataset.load(self.known_uri) == self._load(),
                f"Dataset.load({self.uri!r}) must give what {name_of(self.tested)} loads.",
            )
        finally:
            unregister_resolver(self.tested)

    def _load(self, columns: Mapping[str, str] | None = None) -> Dataset:
        loaded = attempt(
            lambda: self.tested.load(self.known_uri, columns),
            f"{name_of(self.tested)} cannot load {self.uri!r}.",
        )
        check(
            isinstance(loaded, Dataset),
            f"{name_of(self.tested)}.load() must return a Dataset, not {loaded!r:.80}.",
        )
        return loaded

    def _stream(self, columns: Mapping[str, str] | None = None) -> list[Example]:
        stream = attempt(
            lambda: self.tested.stream(self.known_uri, columns),
            f"{name_of(self.tested)} cannot stream {self.uri!r}.",
        )
        check(
            isinstance(stream, DatasetStream),
            f"{name_of(self.tested)}.stream() must return a DatasetStream, not {stream!r:.80}.",
        )
        return list(stream)

    def _expect_error(self, call: Callable[[], object], method: str) -> None:
        name, uri = name_of(self.tested), self.missing_uri
        try:
            call()
        except DatasetError as error:
            check(
                uri in str(error) or uri.rpartition(":")[2].lstrip("/") in str(error),
                f"The error of {name}.{method}() must name {uri!r}; it says: {error}",
            )
        except Exception as error:
            fail(f"{name}.{method}({uri!r}) must raise DatasetError, not {type(error).__name__}: {error}")
        else:
            fail(f"{name}.{method}({uri!r}) must raise DatasetError; it returned a data set.")
